// One of many names: what is typed searches them, and the browser lists what was found.

import { make } from "./look";

// Picker chooses a name. find returns some of those that have a text, the very name first.
export class Picker {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly list: HTMLDataListElement;
  private chosen = "";

  constructor(
    id: string,
    label: string,
    private readonly find: (text: string) => Promise<string[]>,
    private readonly picked: (name: string) => void,
    private readonly failed: (e: unknown) => void,
  ) {
    this.list = make("datalist", { id: `${id}-names` });
    this.input = make("input", {
      type: "text", id, list: `${id}-names`, "aria-label": label, autocomplete: "off", spellcheck: "false", title: "Type to search",
    });
    this.element = make("div", { class: "picker" }, this.input, this.list);
    this.input.addEventListener("focus", () => { // an empty field lists all names
      this.input.placeholder = this.chosen;
      this.input.value = "";
      void this.search();
    });
    this.input.addEventListener("input", () => void this.search());
    this.input.addEventListener("change", () => void this.take());
    this.input.addEventListener("blur", () => (this.input.value = this.chosen));
    this.input.addEventListener("keydown", (e) => e.key === "Escape" && this.input.blur());
  }

  // show shows a name that was chosen elsewhere.
  show(name: string): void {
    this.chosen = name;
    if (document.activeElement !== this.input) this.input.value = name;
  }

  private async search(): Promise<string[]> {
    const text = this.input.value;
    try {
      const names = await this.find(text);
      if (text === this.input.value) this.list.replaceChildren(...names.map((value) => make("option", { value })));
      return names;
    } catch (error) {
      this.failed(error);
      return [];
    }
  }

  // take takes what was typed or picked, if there is such a name.
  private async take(): Promise<void> {
    const name = this.input.value;
    if (name === "" || (await this.search())[0] !== name) return this.input.blur();
    this.chosen = name;
    this.input.blur(); // the keys are the page's again
    this.picked(name);
  }
}
