"""Postage for parcels: what they cost, and their labels."""
