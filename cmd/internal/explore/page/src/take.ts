// What somebody takes along from a picture: the picture, its numbers, its settings as a config.

import { Course, Past, Settings } from "./api";
import { button, make } from "./look";

// save hands a file to the browser. Nothing leaves the machine.
function save(name: string, content: Blob): void {
  const link = make("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const columns = ["truth_x", "truth_y", "release_x", "release_y", "estimate_x", "estimate_y", "radius_km", "blind_x", "blind_y", "spent"] as const;

// numbers are the reports of a course as CSV, as far as they are computed. Places are in kilometres
// east and north of the map's south-west corner.
export function numbers(c: Course, past: Past | null): string {
  const lines = [["time", "kind", ...columns, ...(past ? ["smoothed_x", "smoothed_y"] : [])].join()];
  c.time_ms.forEach((ms, i) => {
    lines.push([new Date(ms).toISOString(), c.kind[i], ...columns.map((name) => c[name][i] ?? ""),
      ...(past ? [past.x[i] ?? "", past.y[i] ?? ""] : [])].join());
  });
  return lines.join("\n") + "\n";
}

// config is the section of a service's config that has these settings.
export function config(s: Settings, stepSeconds: number): string {
  const lines = ["release:", `  mechanism: ${s.mechanism}`, `  epsilon: ${s.epsilon}`];
  if (s.mechanism !== "codebook") lines.push(`  delta: ${s.delta}`);
  if (s.near_factor) lines.push(`  near: {distance: ${Math.round(s.near_km * 1000)}m, factor: ${s.near_factor}}`);
  if (s.hours) lines.push(`  hours: ["${s.hours} UTC"]`);
  lines.push(`  interval: ${s.interval * stepSeconds}s`, s.budget ? `  budget: {epsilon: ${s.budget}, window: 24h}`
    : "  budget: none # set a limit before you use this: each release adds its epsilon");
  return lines.join("\n") + "\n";
}

// taker makes the buttons. course returns what is shown, if anything is.
export function taker(name: () => string, canvas: () => HTMLCanvasElement, course: () => Course | null, past: () => Past | null = () => null): HTMLElement {
  const take = (id: string, text: string, title: string, act: (c: Course) => void) => button({ id: `take-${id}`, title }, text, () => {
    const c = course();
    if (c) act(c);
  });
  const text = (content: string, type: string) => new Blob([content], { type });
  return make("div", { class: "bar small", role: "group", "aria-label": "Take along" },
    make("span", { class: "soft" }, "Save"),
    take("picture", "Picture", "The map as it is shown, as PNG. It has the true place, unless you hide it", () =>
      canvas().toBlob((blob) => blob && save(`${name()}.png`, blob))),
    take("numbers", "Numbers", "All reports that are computed, as CSV. It has the true places", (c) =>
      save(`${name()}.csv`, text(numbers(c, past()), "text/csv"))),
    take("config", "Config", "These settings as the release section of a service's config", (c) =>
      save("release.yml", text(config(c.settings, c.step_s), "application/yaml"))));
}
