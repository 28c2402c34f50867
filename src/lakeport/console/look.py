"""How all pages look: colours with enough contrast, and what assistive programs need."""

from __future__ import annotations

from typing import Final

from nicegui import ui

__all__ = ["CHART_COLOUR", "CHART_TEXT", "apply_look"]

PRIMARY: Final = "#1d5fa6"
"""Readable as text on white, and behind white text."""

CHART_TEXT: Final = "#595959"
"""Readable on a light page; a dark page inverts its charts."""

CHART_COLOUR: Final = "#3b82c4"
"""Has the same hue on a dark page."""

# Quasar's own rules are !important in a layer, which only their variable changes.
_STYLE: Final = """
.body--dark .text-primary, .body--dark .nicegui-link { --q-primary: #8fbdf0; }
.q-page .nicegui-link { color: var(--q-primary); }
.body--dark .cm-editor, .body--dark .nicegui-echart { filter: invert(1) hue-rotate(180deg); }
.q-btn, .q-tab__label { text-transform: none; }
.q-table td { overflow-wrap: anywhere; white-space: normal; max-width: 40rem; }
.q-table .null { font-style: italic; color: #666; }
.body--dark .q-table .null { color: #aaa; }
.q-table td.nowrap { white-space: nowrap; overflow-wrap: normal; }
@media (max-width: 600px) {
  .q-table td:not(.nowrap) { min-width: 9rem; }
  .q-table td, .q-table th { padding: 4px 10px; }
}
header nav a { opacity: 0.8; padding: 0.1rem 0; border-bottom: 2px solid transparent; }
header nav a[aria-current] { opacity: 1; border-color: currentColor; }
.q-page { overflow-wrap: anywhere; }
"""

# NiceGUI 3.18 and Quasar 2 do not set these.
_SCRIPT: Final = """
document.documentElement.lang = 'en';
new MutationObserver(() => {
  document.querySelectorAll('.q-table__middle:not([tabindex])').forEach(e => e.tabIndex = 0);
  document.querySelectorAll('.cm-content:not([aria-label])').forEach(
    e => e.setAttribute('aria-label', 'query'));
}).observe(document.documentElement, {childList: true, subtree: true});
// CodeMirror keeps the tabulator for itself, and makes a line of Ctrl+Enter.
document.addEventListener('keydown', e => {
  if (!e.target.closest || !e.target.closest('.cm-content')) return;
  if (e.key === 'Tab') e.stopPropagation();
  if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
    e.preventDefault();
    e.stopPropagation();
    emitEvent('run-query');
  }
}, true);
"""


def apply_look() -> None:
    """Give a page the colours and marks of all pages."""
    ui.colors(primary=PRIMARY)
    ui.add_css(_STYLE)
    ui.add_head_html(f"<script>{_SCRIPT}</script>")
