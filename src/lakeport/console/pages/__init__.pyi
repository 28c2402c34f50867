from .routes import register_pages

__all__ = ["register_pages"]
