"""The core of a small shop."""

from shop.cart import Cart

__all__ = ["Cart"]
