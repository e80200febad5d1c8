"""Thin adapters to trainers that bring a loop of their own; they may use every room, and no room uses them."""
