"""A model for others: its card, and the Hugging Face hub.

card.py      the card of a trained model: README.md
sections.py  the sections of its text
metadata.py  its front matter
hub.py       which files are sent to the hub, and what can go wrong
"""
