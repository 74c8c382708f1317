"""The operators' door: pages in the browser, readable and workable without script."""
