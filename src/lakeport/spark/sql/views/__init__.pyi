from .translation import translate

__all__ = ["translate"]
