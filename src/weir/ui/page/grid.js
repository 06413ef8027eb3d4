// A table of any size that stays fluid: only the rows and columns in sight are there. Works without a mouse.
import { counted, h } from "./dom.js";

/** Cells on paper: more would keep the browser busy for long, and be read by nobody. */
const MOST_PRINTED = 20000;

/**
 * @typedef {object} Cells
 * @property {number} rows
 * @property {number} columns
 * @property {(column: number) => HTMLElement} head
 * @property {(row: number) => HTMLElement} name
 * @property {(row: number, column: number) => HTMLElement} cell
 * @property {(row: number, column: number) => void} open
 */

export class Grid {
  /** @param {{label: string, rowHeight: number, headHeight: number, corner: string}} given */
  constructor(given) {
    this.given = given;
    /** @type {Cells | null} */
    this.cells = null;
    this.at = { row: 0, column: 0 };
    this.hasFocus = false;
    this.seen = this.across = "";
    this.columnWidth = 0;
    /** @type {Map<number, HTMLElement>} */
    this.lines = new Map();
    this.head = h("div.grid-head", { role: "row", "aria-rowindex": 1 });
    this.body = h("div.grid-body", { role: "rowgroup" });
    this.element = h("div.grid", {
      role: "grid", "aria-label": given.label, onscroll: () => this.draw(), onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e),
    }, h("div.grid-headgroup", { role: "rowgroup" }, this.head), this.body);
    this.element.addEventListener("focusin", () => { this.hasFocus = true; });
    this.element.addEventListener("focusout", () => { this.hasFocus = false; });
    const paper = matchMedia("print");
    this.printing = paper.matches;
    const turn = (/** @type {boolean} */ on) => { if (on !== this.printing) { this.printing = on; this.draw(true); } };
    paper.addEventListener("change", () => turn(paper.matches));
    addEventListener("beforeprint", () => turn(true));
    addEventListener("afterprint", () => turn(false));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  get narrow() { return innerWidth < 700; }
  get nameWidth() { return this.narrow ? 150 : 268; }

  /** Few columns share the whole width, up to what their labels need; many keep the least that can be read. */
  fitColumns() {
    const least = this.narrow ? 84 : 146, columns = Math.max(1, this.cells ? this.cells.columns : 1);
    const share = Math.floor((this.element.clientWidth - this.nameWidth) / columns);
    this.columnWidth = this.printing ? Math.min(least, 128) : Math.max(least, Math.min(480, share));
  }

  /** @param {Cells} cells */
  show(cells) {
    this.cells = cells;
    this.seen = "";  // while it is not on the page yet, nothing is drawn: its first size does that
    this.at.row = Math.max(0, Math.min(this.at.row, cells.rows - 1));
    this.at.column = Math.max(0, Math.min(this.at.column, cells.columns - 1));
    this.element.setAttribute("aria-rowcount", String(cells.rows + 1));
    this.element.setAttribute("aria-colcount", String(cells.columns + 1));
    this.draw(true);
  }

  /** @param {boolean} [anew] */
  draw(anew) {
    const cells = this.cells;
    if (!cells || !this.element.isConnected) return;
    const { rowHeight, headHeight } = this.given, own = this.element;
    this.fitColumns();
    const wide = this.nameWidth + cells.columns * this.columnWidth;
    const all = this.printing;
    const above = all ? 0 : Math.max(0, Math.floor(own.scrollTop / rowHeight) - 4);
    const below = all ? Math.min(cells.rows, Math.ceil(MOST_PRINTED / Math.max(1, cells.columns))) : Math.min(cells.rows, Math.ceil((own.scrollTop + own.clientHeight) / rowHeight) + 4);
    const left = all ? 0 : Math.max(0, Math.floor(own.scrollLeft / this.columnWidth) - 2);
    const right = all ? cells.columns : Math.min(cells.columns, Math.ceil((own.scrollLeft + own.clientWidth) / this.columnWidth) + 2);
    const seen = [above, below, left, right, wide].join(), across = [left, right, wide].join();
    if (seen === this.seen && !anew) return;
    this.seen = seen;
    if (anew || across !== this.across) this.lines.clear();
    this.across = across;
    const had = this.hasFocus;
    this.head.style.height = `${headHeight}px`;
    this.head.style.width = this.body.style.width = `${wide}px`;
    this.body.style.height = `${cells.rows * rowHeight}px`;
    const corner = h("div.grid-corner", { role: "columnheader", "aria-colindex": 1 }, this.given.corner);
    corner.style.width = `${this.nameWidth}px`;
    const heads = [corner];
    for (let column = left; column < right; column += 1) {
      heads.push(this.place(cells.head(column), "columnheader", column));
    }
    this.head.replaceChildren(...heads);
    const rows = [];
    for (let row = above; row < below; row += 1) {
      const there = this.lines.get(row);
      if (there) { rows.push(there); continue; }
      const name = cells.name(row);
      name.setAttribute("role", "rowheader");
      name.setAttribute("aria-colindex", "1");
      name.classList.add("grid-name");
      name.style.width = `${this.nameWidth}px`;
      const line = h("div.grid-row", { role: "row", "aria-rowindex": row + 2 }, name);
      line.style.top = `${row * rowHeight}px`;
      line.style.height = `${rowHeight}px`;
      line.style.width = `${wide}px`;
      for (let column = left; column < right; column += 1) {
        const cell = this.place(cells.cell(row, column), "gridcell", column);
        const here = row === this.at.row && column === this.at.column;
        cell.tabIndex = here ? 0 : -1;
        cell.dataset.row = String(row);
        cell.dataset.column = String(column);
        cell.addEventListener("click", () => { this.at = { row, column }; this.mark(); cells.open(row, column); });
        line.append(cell);
      }
      rows.push(line);
      this.lines.set(row, line);
    }
    for (const row of this.lines.keys()) if (row < above || row >= below) this.lines.delete(row);
    this.body.replaceChildren(...rows);
    if (all && below < cells.rows) {
      this.body.append(h("p.print-note", null, `${below} of ${counted(cells.rows, "row")} are printed: filter to print others.`));
    }
    if (!own.querySelector('[tabindex="0"]')) {
      const first = /** @type {HTMLElement | null} */ (this.body.querySelector('[role="gridcell"]'));
      if (first) first.tabIndex = 0;
    }
    if (had) this.focus(false);
  }

  /** @param {HTMLElement} cell @param {string} role @param {number} column */
  place(cell, role, column) {
    cell.setAttribute("role", role);
    cell.setAttribute("aria-colindex", String(column + 2));
    cell.classList.add("grid-cell");
    cell.style.left = `${this.nameWidth + column * this.columnWidth}px`;
    cell.style.width = `${this.columnWidth}px`;
    return cell;
  }

  mark() {
    for (const each of this.body.querySelectorAll('[role="gridcell"]')) {
      const cell = /** @type {HTMLElement} */ (each);
      const here = cell.dataset.row === String(this.at.row) && cell.dataset.column === String(this.at.column);
      cell.tabIndex = here ? 0 : -1;
    }
  }

  /** Scroll to where the keys are. */
  scroll() {
    const { row, column } = this.at, { rowHeight, headHeight } = this.given, own = this.element;
    const top = row * rowHeight, room = own.clientHeight - headHeight;
    if (top < own.scrollTop) own.scrollTop = top;
    else if (top + rowHeight > own.scrollTop + room) own.scrollTop = top + rowHeight - room;
    const left = column * this.columnWidth, wide = own.clientWidth - this.nameWidth;
    if (left < own.scrollLeft) own.scrollLeft = left;
    else if (left + this.columnWidth > own.scrollLeft + wide) own.scrollLeft = left + this.columnWidth - wide;
    this.draw(true);
  }

  /** Show a cell that was opened; one that is filtered away changes nothing. @param {number} row @param {number} column */
  reveal(row, column) {
    if (row >= 0 && column >= 0) {
      this.at = { row, column };
      this.scroll();
    } else this.draw(true);
  }

  /** @param {boolean} [scroll] */
  focus(scroll = true) {
    const { row, column } = this.at;
    if (scroll) this.scroll();
    this.mark();
    const cell = this.body.querySelector(`[data-row="${row}"][data-column="${column}"]`);
    if (cell) /** @type {HTMLElement} */ (cell).focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const cells = this.cells;
    if (!cells || !cells.rows || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.given.rowHeight) - 3);
    const { row, column } = this.at;
    /** @type {Record<string, [number, number]>} */
    const moves = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      PageUp: [row - page, column], PageDown: [row + page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0], End: event.ctrlKey ? [cells.rows - 1, cells.columns - 1] : [row, cells.columns - 1],
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      cells.open(row, column);
    } else if (moves[event.key] && !(event.ctrlKey && !["Home", "End"].includes(event.key))) {
      event.preventDefault();
      const [to, across] = moves[event.key];
      this.at = {
        row: Math.max(0, Math.min(cells.rows - 1, to)),
        column: Math.max(0, Math.min(cells.columns - 1, across)),
      };
      this.focus();
    }
  }
}
