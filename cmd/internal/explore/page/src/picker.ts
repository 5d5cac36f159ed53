// A list of names of any length: what is typed searches it, and only the rows that are seen exist.

import { make } from "./look";

export interface Names {
  total: number;
  from: number;
  names: string[];
}

const row = 32; // px
const shown = 9; // rows

// Picker chooses one of many names.
export class Picker {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly list: HTMLElement;
  private readonly rows = make("div", { class: "rows" });
  private known = new Map<number, string>();
  private asked = new Set<number>();
  private total = 0;
  private at = 0; // the row that Enter takes
  private query = "";
  private chosen = "";

  constructor(
    id: string,
    label: string,
    private readonly find: (text: string, from: number) => Promise<Names>,
    private readonly picked: (name: string) => void,
    private readonly failed: (e: unknown) => void,
  ) {
    this.list = make("div", { class: "names", role: "listbox", id: `${id}-names`, "aria-label": label }, this.rows);
    this.list.hidden = true;
    this.input = make("input", {
      type: "text", id, role: "combobox", "aria-label": label, "aria-expanded": "false", "aria-autocomplete": "list",
      "aria-controls": `${id}-names`, autocomplete: "off", spellcheck: "false", title: "Type to search",
    });
    this.element = make("div", { class: "picker" }, this.input, this.list);
    this.input.addEventListener("focus", () => this.input.select());
    this.input.addEventListener("click", () => this.open(""));
    this.input.addEventListener("input", () => this.open(this.input.value));
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (e) => this.key(e));
    this.list.addEventListener("scroll", () => this.lay());
    // A press on the list must not take the focus from the text, which would close the list.
    this.list.addEventListener("pointerdown", (e) => e.preventDefault());
    this.rows.addEventListener("click", (e) => {
      const name = (e.target as HTMLElement).dataset["name"];
      if (name !== undefined) this.take(name);
    });
  }

  // show shows a name that was chosen elsewhere.
  show(name: string): void {
    this.chosen = name;
    if (this.list.hidden) this.input.value = name;
  }

  private open(query: string): void {
    this.query = query;
    this.known.clear();
    this.asked.clear();
    this.total = this.at = 0;
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.list.scrollTop = 0;
    void this.fetch(0);
  }

  private close(): void {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.input.value = this.chosen;
  }

  private take(name: string): void {
    this.chosen = name;
    this.input.blur(); // closes the list, and leaves the keys to the page
    this.picked(name);
  }

  private async fetch(from: number): Promise<void> {
    if (this.asked.has(from)) return;
    this.asked.add(from);
    const query = this.query;
    try {
      const found = await this.find(query, from);
      if (query !== this.query || this.list.hidden) return;
      this.total = found.total;
      found.names.forEach((name, i) => this.known.set(found.from + i, name));
      this.lay();
    } catch (error) {
      this.failed(error);
    }
  }

  // lay makes the rows that are seen, and asks for those that are not known.
  private lay(): void {
    this.list.style.height = `${row * Math.max(1, Math.min(shown, this.total)) + 2}px`;
    this.rows.style.height = `${row * Math.max(1, this.total)}px`;
    const first = Math.max(0, Math.floor(this.list.scrollTop / row) - 2);
    const seen = [];
    for (let i = first; i < Math.min(this.total, first + shown + 5); i++) {
      const name = this.known.get(i);
      if (name === undefined) void this.fetch(Math.floor(i / 200) * 200);
      const option = make("div", {
        role: "option", id: `${this.list.id}-${i}`, "aria-selected": String(i === this.at),
        "aria-setsize": String(this.total), "aria-posinset": String(i + 1),
      }, name ?? "…");
      if (name !== undefined) option.dataset["name"] = name;
      option.style.top = `${i * row}px`;
      seen.push(option);
    }
    if (this.total === 0) seen.push(make("div", { class: "soft" }, "no such name"));
    this.rows.replaceChildren(...seen);
    if (this.total > 0) this.input.setAttribute("aria-activedescendant", `${this.list.id}-${this.at}`);
  }

  private key(e: KeyboardEvent): void {
    if (e.key === "Escape") return this.close();
    if (e.key === "Enter") {
      const name = this.known.get(this.at);
      if (!this.list.hidden && name !== undefined) this.take(name);
      return;
    }
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: shown, PageUp: -shown }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    if (this.list.hidden) return this.open("");
    this.at = Math.max(0, Math.min(this.total - 1, this.at + by));
    const top = this.at * row;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + row > this.list.scrollTop + shown * row) this.list.scrollTop = top - (shown - 1) * row;
    this.lay();
  }
}
