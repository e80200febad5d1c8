"use strict";
// Elements and numbers. Text goes through text nodes alone: nothing here builds HTML from strings.

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const button = (label, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, label);

function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function options(select, entries, chosen) {
  const same = select.options.length === entries.length && entries.every(([id, label], i) => select.options[i].value === id && select.options[i].text === label);
  if (!same) select.replaceChildren(...entries.map(([id, label]) => new Option(label, id)));
  if (entries.some(([id]) => id === chosen)) select.value = chosen;
  else if (entries.length) select.value = entries[0][0];
  return select.value;
}

// Small numbers get more digits, so that 0.00 means zero.
function number(value, digits = 2) {
  if (value === undefined || value === null || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 10 ** -digits && digits < 4) return number(value, 4);
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}
const signed = (value, digits = 2) => (value > 0 ? "+" : "") + number(value, digits);

// Reads as 0 or 100 only if it is.
function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1 && share > 0.9995) return "> 99.9 %";
  return (100 * share).toFixed(1) + " %";
}

const count = (many, one, several = one + "s") => many.toLocaleString("en") + " " + (many === 1 ? one : several);

function ago(seconds) {
  if (seconds < 90) return count(Math.max(0, Math.round(seconds)), "second") + " ago";
  if (seconds < 5400) return count(Math.round(seconds / 60), "minute") + " ago";
  if (seconds < 129600) return count(Math.round(seconds / 3600), "hour") + " ago";
  return count(Math.round(seconds / 86400), "day") + " ago";
}

function setting(name, value) {
  try {
    if (value === undefined) return localStorage.getItem("wordle-rl." + name);
    localStorage.setItem("wordle-rl." + name, value);
  } catch {
    // A browser may keep nothing for a file; the choice then lasts as long as the page.
  }
  return null;
}

let spoken = 0;
function say(text) {
  const status = byId("status");
  status.textContent = "";
  clearTimeout(spoken);
  spoken = setTimeout(() => (status.textContent = text), 30); // an equal text is read out again
}
