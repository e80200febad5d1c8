"""A model for others: its card, and the Hugging Face hub."""
