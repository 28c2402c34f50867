from .limits import Limits

__all__ = ["Limits"]
