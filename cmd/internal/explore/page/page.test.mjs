// The page in a real browser. test.sh starts it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const shots = process.env.SHOTS;
let browser;
let server;

// serve starts geodither and returns the address of its page, or what else it says to be at.
function serve(args, at = /http:\S+/) {
  const child = spawn(process.env.GEODITHER, args, { stdio: ["ignore", "pipe", "inherit"] });
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout.on("data", (chunk) => {
      said += chunk;
      const address = said.match(at);
      if (address) resolve({ child, url: address[0] });
    });
    child.on("exit", () => reject(new Error(`geodither ended and said: ${said}`)));
  });
}

const opened = new WeakMap(); // the contexts of a test

// own starts geodither for one test. In the end its pages close first, which may still ask it.
async function own(t, args, at) {
  const server = await serve(args, at);
  t.after(async () => {
    for (const context of opened.get(t) ?? []) await context.close();
    await end(server.child);
  });
  return server;
}

async function end(child) {
  if (child.exitCode !== null) return;
  child.kill("SIGINT");
  await once(child, "exit");
}

// open opens a page, and fails the test if the page breaks its policy, has an error, or asks
// anybody else for anything.
async function open(t, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, reducedMotion: "reduce", ...options });
  opened.set(t, [...opened.get(t) ?? [], context]);
  context.setDefaultTimeout(120_000); // of a machine that does much else
  const page = await context.newPage();
  const faults = [];
  page.on("console", (m) => m.type() === "error" && !options.faulty && faults.push(m.text()));
  page.on("pageerror", (e) => faults.push(e.message));
  page.on("request", (r) => new URL(r.url()).origin === new URL(url).origin || faults.push(r.url()));
  t.after(async () => {
    await context.close();
    assert.deepEqual(faults, []);
  });
  await page.addInitScript(() => {
    window.shift = 0; // how much has jumped
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) window.shift += e.hadRecentInput ? 0 : e.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(url);
  await page.waitForSelector("main div[role=tabpanel]:not([hidden])");
  return page;
}

// calm waits until the page has done what it put off for less than so many ms, and has drawn. The
// clock is the page's own, so a slow machine makes no difference.
const calm = (page, ms) => page.evaluate((rest) => new Promise((done) =>
  setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), rest)), ms);

async function shot(page, name, fullPage = false) {
  await calm(page, 300);
  if (shots) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: `${shots}/${name}.png`, fullPage });
  }
}

// ink is what a canvas shows, as a text to compare.
const ink = (page, at = "main [role=tabpanel]:not([hidden]) .picture canvas") =>
  calm(page, 250).then(() => page.$eval(at, (c) => c.toDataURL()));

// pick chooses a name from a list that is searched.
async function pick(page, at, name) {
  await page.fill(at, name);
  await page.press(at, "Enter");
}

// settled waits until the page has what was asked for last.
async function settled(page) {
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() => !document.querySelector(".busy"));
  await page.waitForLoadState("networkidle");
  await calm(page, 400); // until the address has it
}

// saved reads the vectors of what is seen.
async function saved(page, read) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.click("#take-svg")]);
  const text = readFileSync(await file.path(), "utf8");
  return (await page.evaluateHandle((svg) => new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, text)).evaluate(read);
}

// often are the settings of a release in each step without a budget. The page opens with a plan.
const often = "&epsilon=1&interval=1&budget=0";

// show writes a length as the page does.
const show = (km) => (km >= 1 ? `${km.toFixed(1)} km` : `${Math.round(km * 100) * 10} m`);

// town writes the reports of users, of whom one reports often, and a model of them.
function town(t, cell, users = 0, step = 60) {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [traces, model] = [join(folder, "traces.csv"), join(folder, "model.avro")];
  const lines = ["user_id,timestamp,latitude,longitude"];
  for (let u = 0; u < users; u++) {
    lines.push(`user-${String(u).padStart(5, "0")},2026-01-26T16:00:00Z,53.4${u % 5},-2.9${u % 7}`);
  }
  for (let i = 1; i < 400; i++) lines.push(`user-07777,${1769443200 + step * i}000,53.4${i % 5},-2.9${i % 7}`);
  writeFileSync(traces, lines.join("\n"));
  execFileSync(process.env.GEODITHER, ["train", "--box", "53.4,-3,53.46,-2.9", "--cell", cell, "--step", `${step}s`,
    "--out", model, traces], { stdio: "pipe" });
  return { traces, model };
}

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu"],
  });
  server = await serve(["explore"]);
});

after(async () => {
  await browser?.close();
  if (server) await end(server.child);
});

test("a newcomer sees a bus under a plan of 20 a day", async (t) => {
  const page = await open(t, server.url);
  await settled(page);
  assert.match(await page.textContent("#badge"), /Secret side: truth shown/);
  assert.match(await page.textContent("#caption"), /^bus-4733 is really at/);
  assert.deepEqual(await page.$$eval("#a-epsilon + output, #a-interval + output", (all) => all.map((e) => e.textContent)), ["ε = 6.6", "40 min"]);
  assert.equal(await page.$eval("#a-budget", (e) => e.value), "20");
  assert.doesNotMatch(page.url(), /epsilon|interval|budget/, "the plan is not what the page opens with");
  assert.match(await page.textContent(".says"), /What ε = 6.6 means.*735.*99\.9 %/);
  await page.waitForFunction(() => /somebody who rides in bus-4733\. The whole trace has 3 releases, .*Σε = 19.8\. .*from the truth in the median/
    .test(document.querySelector("#mine").textContent));
  const { kind } = await page.evaluate(async () => (await fetch("api/course?user=bus-4733&epsilon=6.6&interval=80&budget=20")).json());
  assert.equal(kind[Number(await page.inputValue("#time"))], "released");
  assert.equal(await page.isVisible("#wrong"), false);
  await shot(page, "step");
});

test("a hidden truth is in no picture, number or word", async (t) => {
  const page = await open(t, server.url);
  const asked = [];
  page.on("request", (r) => asked.push(r.url()));
  const told = /truth|real|\boff\b|mislead|wrong|median|tell more|true cell|model alone/i;
  for (const view of ["step", "day", "fleet"]) {
    await page.click(`#tab-${view}`);
    await settled(page);
    const at = `#${view} canvas[role=img]:visible`;
    const shown = await ink(page, `#${view} .picture:not(.truth) canvas`);
    assert.match(await page.textContent("main"), told);
    await page.uncheck("#show-truth");
    await settled(page);
    const seen = await page.$$eval("#badge, main", (all) => all.map((e) => e.innerText).join(" "));
    assert.doesNotMatch(seen.replace("Secret side: truth hidden", ""), told, view);
    assert.equal(await page.locator(at).count(), view === "fleet" ? 2 : 1);
    if (view !== "fleet") assert.notEqual(await ink(page, `#${view} .picture canvas`), shown, "the truth is drawn");
    else assert.match(asked.findLast((url) => /api\/fleet/.test(url)), /truth=0/);
    assert.equal(await page.locator("#frontier:visible").count(), 0, "prices tell how far off a guess is");
    await shot(page, `hidden-${view}`);
    if (view === "step") {
      for (let part = 1; part < 6; part++) {
        await page.keyboard.press("ArrowDown");
        assert.doesNotMatch(await page.textContent("#caption"), told, `part ${part}`);
      }
      const [file] = await Promise.all([page.waitForEvent("download"), page.click("#take-numbers")]);
      assert.doesNotMatch(readFileSync(await file.path(), "utf8"), /truth/);
      const link = await open(t, page.url());
      await settled(link);
      assert.equal(await link.isChecked("#show-truth"), false, "a link shows it");
    }
    await page.check("#show-truth");
  }
});

test("each part of a step has a picture and words of its own, by mouse and by keys", async (t) => {
  for (const [mechanism, words] of [
    ["codebook", [/only you see/, /likely/, /code points/, /Chance decides/, /times/, /best guess/]],
    ["lattice", [/only you see/, /likely/, /location set/, /Noise/, /times/, /best guess/]],
  ]) {
    const page = await open(t, `${server.url}#view=step&user=bus-4720&fix=122${often}`);
    await page.selectOption("#a-mechanism", mechanism);
    await settled(page);
    const pictures = new Set();
    for (let part = 0; part < 6; part++) {
      if (part > 0) await page.keyboard.press("ArrowDown");
      assert.match(await page.textContent("#caption"), words[part], `${mechanism}, part ${part}`);
      assert.equal(await page.getAttribute(".parts li:nth-child(" + (part + 1) + ") button", "aria-pressed"), "true");
      pictures.add(await ink(page));
      await shot(page, `step-${mechanism}-${part}`);
    }
    assert.equal(pictures.size, 6);
    await page.click(".parts li:first-child button");
    assert.match(await page.textContent("#caption"), words[0]);
    await page.uncheck("#show-truth");
    assert.ok(!pictures.has(await ink(page)), "the truth is drawn though it is not to be shown");
  }
});

test("another vehicle, another time, play and the map's own moves", async (t) => {
  const page = await open(t, server.url);
  await settled(page);
  const first = await ink(page);
  await page.keyboard.press("ArrowRight");
  await settled(page);
  assert.notEqual(await ink(page), first);
  const clock = await page.textContent("#clock");
  await page.keyboard.press(" ");
  await page.waitForFunction((was) => document.querySelector("#clock").textContent !== was, clock);
  await page.keyboard.press(" ");
  assert.match(await page.textContent("#play"), /Play/);
  await pick(page, "#user", "bus-4842");
  await settled(page);
  assert.match(await page.textContent("#caption"), /bus-4842/);
  assert.match(page.url(), /user=bus-4842/);
  await page.keyboard.press("0");
  const before = await ink(page);
  await page.keyboard.press("+");
  assert.ok(await ink(page) !== before);
  await page.keyboard.press("0");
  assert.ok(await ink(page) === before);
});

test("the numbers are those of the answers", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40${often}`);
  await settled(page);
  await page.selectOption("#a-mechanism", "lattice");
  await settled(page);
  const answer = await page.evaluate(async () => {
    const query = "user=bus-4722&mechanism=lattice&epsilon=1&delta=0.01&interval=1&seed=1";
    return (await fetch(`api/course?${query}`)).json();
  });
  const facts = await page.textContent(".facts");
  assert.ok(facts.includes(`Trace: Σε${answer.summary.spent}`), facts);
  assert.ok(answer.spent[40] < answer.summary.spent && facts.includes(`Σε so far${answer.spent[40]}Trace: `), facts);
  await page.click("#tab-day"); // says the same
  await settled(page);
  assert.match(await page.textContent("#day-facts"), new RegExp(`Σε so far${answer.spent[40]}\\D`));
  const shown = show(answer.summary.estimate_m.median / 1000);
  assert.ok(facts.includes(shown), `${facts} lacks ${shown}`);
});

test("two settings by a split of one picture", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40${often}`);
  await settled(page);
  const [whole, alone] = [await ink(page), await page.textContent("#step-facts")];
  await page.click("#split"); // the knobs turn B now
  await page.setViewportSize({ width: 390, height: 844 });
  await settled(page);
  const [a, b] = await page.$$eval("#step div.corner", (all) => all.map((e) => e.getBoundingClientRect()));
  assert.ok(a.width > 50 && a.right <= b.left, "the name of a half lies on the other one");
  await page.setViewportSize({ width: 1360, height: 900 });
  await page.selectOption("#a-mechanism", "codebook");
  await page.selectOption("#a-budget", "0");
  await page.locator("#a-interval").fill("0");
  await page.locator("#a-epsilon").fill("9"); // ε = 4
  await page.locator("#a-epsilon").dispatchEvent("change");
  await settled(page);
  const answer = await page.evaluate(async () => {
    const query = "user=bus-4722&mechanism=codebook&epsilon=4&interval=1&seed=1";
    return (await fetch(`api/course?${query}`)).json();
  });
  const { releases, estimate_m } = answer.summary;
  const facts = await page.textContent("#step-facts");
  assert.ok(facts.includes(`Σε${releases} | ${4 * releases}`), facts);
  assert.ok(facts.includes(` | ${show(estimate_m.median / 1000)}`), facts);
  const half = await ink(page);
  assert.notEqual(half, whole);
  for (const dd of await page.$$("#step-facts dd")) {
    assert.ok(await dd.evaluate((e) => e.getBoundingClientRect().height < 30 && e.scrollWidth <= e.clientWidth), "two numbers do not fit");
  }
  await page.locator("#step .edge").fill("80");
  assert.notEqual(await ink(page), half, "the edge does not move");
  await shot(page, "split");
  const link = await open(t, page.url());
  await settled(link);
  assert.equal(await link.textContent("#step-facts"), facts, "a link shows other numbers");
  await page.click("#turn-A");
  assert.equal(await page.textContent(".knobs output"), "ε = 1");
  await page.click("#split");
  await settled(page);
  assert.equal(await page.textContent("#step-facts"), alone, "A has changed with B's knob");
});

test("four ε beside each other, of which a click takes one", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40${often}`, { viewport: { width: 1280, height: 720 } });
  await settled(page);
  await page.click("#four");
  await settled(page);
  assert.match(page.url(), /shows=4/);
  const within = await page.evaluate(() => Promise.all([0.25, 0.5, 1, 2].map(async (epsilon) =>
    (await (await fetch(`api/step?user=bus-4722&fix=40&epsilon=${epsilon}`)).json()).radius_km)));
  assert.deepEqual(await page.$$eval("#step .four button", (all) => all.map((b) => b.textContent)),
    [0.25, 0.5, 1, 2].map((epsilon, i) => `ε = ${epsilon}: within ${show(within[i])}`));
  const drawn = await page.$$("#step .four canvas");
  assert.equal(new Set(await Promise.all(drawn.map((c) => c.evaluate((e) => e.toDataURL())))).size, 4);
  for (const b of await page.$$("#step .four button")) {
    assert.ok(await b.evaluate((e) => e.clientHeight < 40 && e.getBoundingClientRect().right < e.parentElement.getBoundingClientRect().right), "a label does not fit");
  }
  for (const c of drawn) assert.ok(await c.evaluate((e) => e.getBoundingClientRect().bottom < 720 && e.getBoundingClientRect().width > 150));
  for (const at of ["#take-config", "#show-truth"]) assert.ok(await page.$eval(at, (e) => e.getBoundingClientRect().bottom) < 720, `${at} is cut`);
  await shot(page, "four");
  await page.goto(`${page.url()}&again`); // a link
  await settled(page);
  await page.click("#step .four figure:nth-child(4) button");
  await settled(page);
  assert.match(page.url(), /epsilon=2/);
  assert.doesNotMatch(page.url(), /shows/);
  assert.equal(await page.textContent(".knobs output"), "ε = 2");
  assert.equal(await page.isVisible("#step .four canvas"), false);
});

test("a day: what records tell at the time and afterwards, within a budget", async (t) => {
  const page = await open(t, `${server.url}#view=day&user=bus-4722&fix=40${often}`);
  await settled(page);
  await page.selectOption("#a-lag", "-1");
  await page.click("#tab-step");
  assert.equal(await page.isVisible("#a-lag"), false, "a knob does nothing in this view");
  await page.click("#tab-day");
  await page.selectOption("#a-budget", "50");
  await settled(page);
  const [past, course] = await page.evaluate(() => Promise.all(["past?lag=-1&", "course?"].map(async (q) =>
    (await fetch(`api/${q}user=bus-4722&epsilon=1&budget=50&from=0`)).json())));
  const median = (all) => [(all.length - 1) >> 1, all.length >> 1].reduce((sum, i) => sum + all.toSorted((a, b) => a - b)[i] / 2, 0);
  const has = (text) => page.waitForFunction((part) => document.querySelector("#day-facts").textContent.includes(part), text);
  await has(`Trace: median${show(course.summary.estimate_m.median / 1000)}Trace: smoothed${show(median(past.off_km))}`);
  await has(`Smoothed, now${show(past.off_km[40])}`);
  const off = course.estimate_x.map((x, i) => Math.hypot(x - course.truth_x[i], course.estimate_y[i] - course.truth_y[i]));
  const same = (i) => show(past.off_km[i]) === show(off[i]);
  for (const [verb, holds] of [["tell more", (i) => past.off_km[i] < off[i] && !same(i)], ["mislead", (i) => past.off_km[i] > off[i] && !same(i)], ["change nothing", same]]) {
    const i = off.findIndex((_, k) => k > 40 && holds(k));
    await page.locator("#time").fill(String(i));
    await page.waitForFunction((text) => document.querySelector("#day-caption").textContent.includes(text),
      `At this moment later records ${verb}: ${show(past.off_km[i])} off${same(i) ? "." : ` instead of ${show(off[i])}.`}`);
  }
  assert.equal(course.summary.spent, 50, "the budget is not reached");
  await page.locator("#time").fill(String(course.total - 1));
  await has("Σε in 24 hours50 of 50");
  assert.equal(await page.locator('#day .chart [stroke-dasharray="8 4"][d^=M]').count(), 1);
  await shot(page, "day");
  await page.selectOption("#a-hours", "16:30-17:30");
  await page.selectOption("#a-budget", "0");
  const { summary } = await page.evaluate(async () => (await fetch("api/course?user=bus-4722&epsilon=1&hours=16:30-17:30")).json());
  await has(`Σε so far${summary.spent}`);
  assert.ok(summary.spent > 50 && summary.spent < course.total, "the hours leave nothing out");
  assert.match(page.url(), /lag=-1/);
  await page.click("#day .chart", { position: { x: 200, y: 60 } });
  await settled(page);
  assert.doesNotMatch(page.url(), new RegExp(`fix=${course.total - 1}$`));
});

test("a trace of several days spends the budget of each 24 hours", async (t) => {
  const { traces, model } = town(t, "1km", 0, 600); // 66 hours
  const lines = readFileSync(traces, "utf8").split("\n");
  writeFileSync(traces, lines.toSpliced(150, 0, "user-07777,2026-03-01T00:00:00Z,0,0").join("\n")); // which is refused
  const served = await own(t, ["explore", "--model", model, traces]);
  const page = await open(t, `${served.url}#view=day&epsilon=1&interval=1&budget=20`, { viewport: { width: 1280, height: 720 } });
  await settled(page);
  const c = await page.evaluate(async () => (await fetch("api/course?user=user-07777&epsilon=1&budget=20")).json());
  assert.equal(c.kind[149], "refused");
  assert.ok(c.summary.spent >= 60, `the trace spends ${c.summary.spent}, which is no more than a budget`);
  // What counts are the steps from 24 hours before the start of a fix's step on, and the fix of March has none.
  const step = (i) => Math.floor(c.time_ms[i] / 600_000);
  const day = c.time_ms.map((_, i) => c.spent.reduce((sum, x, k) => sum + (k <= i && step(k) >= step(i) - 144 ? x - (c.spent[k - 1] ?? 0) : 0), 0));
  for (const i of [5, 12, 100, 398]) {
    await page.locator("#time").fill(String(i));
    await page.waitForFunction((text) => document.querySelector("#day-facts").textContent.includes(text), `Σε in 24 hours${day[i]} of 20Trace`);
  }
  assert.match(await page.textContent("#day"), /Σε in 24 hours: at most 20 of 20/);
  const [spent, budget] = await page.$$eval("#day .stack > :nth-child(2) .series", (all) => all.map((e) => e.getAttribute("d").split(/[ML]/).slice(1).map((p) => Number(p.split(" ")[1]))));
  assert.ok(spent.length > 300 && spent.every((y) => y >= budget[0] - 0.2), "more is drawn than the budget allows");
  await shot(page, "days");
});

test("a page that nobody has used yet moves, unless that is unwanted", async (t) => {
  const page = await open(t, server.url, { reducedMotion: "no-preference" });
  await page.waitForFunction(() => /, (9[89]|1\d\d) of 245/.test(document.querySelector("#clock").textContent));
  await page.waitForFunction(() => /^bus-4733 is really at the red dot.*the blue cross, .*off/.test(document.querySelector("#caption").textContent));
  await page.click("#play");
  const clock = await page.textContent("#clock");
  const still = await open(t, server.url);
  await settled(still);
  const first = await still.textContent("#clock");
  await calm(page, 2500);
  assert.equal(await page.textContent("#clock"), clock, "Pause does not end it");
  assert.equal(await still.textContent("#clock"), first, "it moves for somebody who asked for no motion");
});

test("the address changes no more often than a browser allows", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=0`);
  await settled(page);
  await page.evaluate(() => {
    window.changes = 0;
    const write = history.replaceState.bind(history);
    history.replaceState = (...all) => (window.changes++, write(...all));
    for (let i = 0; i < 300; i++) {
      const time = document.querySelector("#time");
      time.value = String(i % 100);
      time.dispatchEvent(new Event("input"));
    }
  });
  assert.ok(await page.evaluate(() => window.changes) <= 80);
  assert.equal(await page.$eval("#time", (e) => e.value), "99");
});

test("an outline is drawn below the map, with its names", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "outline.geojson");
  const line = { type: "LineString", coordinates: [[-2.99, 53.40], [-2.89, 53.47]] };
  const name = { type: "Feature", properties: { name: "Fair Green" }, geometry: { type: "Point", coordinates: [-2.96, 53.455] } };
  const namesake = { ...name, geometry: { type: "Point", coordinates: [-2.93, 53.415] } };
  const named = { type: "Feature", properties: { name: "Long Way" }, geometry: line };
  const ring = [[-4, 53], [-2, 53], [-2, 54], [-4, 54], [-4, 53]]; // around all that is seen
  const hole = [[-2.95, 53.43], [-2.94, 53.43], [-2.94, 53.44], [-2.95, 53.44], [-2.95, 53.43]];
  const area = (...coordinates) => ({ type: "Polygon", coordinates });
  const at = `#view=step&user=bus-4720&fix=122${often}`;
  const plain = await open(t, server.url + at);
  await settled(plain);
  const picture = async (...drawn) => {
    writeFileSync(file, JSON.stringify({ type: "FeatureCollection", features: drawn }));
    const served = await own(t, ["explore", "--outline", file]);
    const page = await open(t, served.url + at);
    await settled(page);
    assert.equal(await page.textContent("#caption"), await plain.textContent("#caption"));
    return ink(page);
  };
  const lined = await picture(line);
  const pictures = new Set([await ink(plain), lined, await picture(line, name), await picture(line, namesake),
    await picture(line, name, namesake)]);
  assert.equal(pictures.size, 5, "lines or names are not drawn, or one name of two places");
  assert.ok(await picture(named) === lined, "a line has its name where it may not be");
  const round = await picture(area(ring));
  assert.ok(!pictures.has(round), "areas are not filled");
  assert.ok(await picture(area(ring), area(ring.toReversed())) === round, "areas above each other cancel out");
  const filled = await picture(area(ring), { type: "LineString", coordinates: hole });
  assert.ok(await picture(area(ring, hole)) !== filled, "a hole is filled");
});

test("the fleet on a typical day, by one slider of the time", async (t) => {
  const page = await open(t, `${server.url}#view=fleet`);
  await settled(page);
  assert.equal(await page.isVisible("#user"), false);
  const asked = (slot) => page.evaluate(async (at) => (await fetch(`api/fleet?slot=${at}`)).json(), slot);
  const u = await asked(8);
  const percent = (x) => `${Math.round(100 * x)} %`;
  const { typical, even, each } = u.slots[8].off;
  assert.ok(typical < 0.7 * even && each < typical && u.slots[8].off.daily > even - u.gain, JSON.stringify(u.slots[8]));
  // The price stands beside each map, with what it is worth.
  assert.deepEqual(await page.$$eval("#fleet figcaption", (all) => all.map((e) => e.innerText.split(/\n+/).slice(0, 3).join("; "))), [
    `Truth (only you see it); the mean of all 20 days; 0 to ${Math.round(u.truth.max)} a zone`, `A typical day; ε = 1 for all 20 days; ${percent(typical)} in a wrong zone`,
    "Daily counts; ε = 0.05 a day, 1 in all; shows nothing"]);
  assert.deepEqual(await page.$$eval("#fleet tbody tr", (all) => all.map((tr) => tr.innerText.split(/\s*\t\s*/))), [
    ["A typical day", "1", percent(typical), percent(u.off.typical)], ["Daily counts, ε = 0.05 each", "1", "nothing", "nothing"],
    ["Daily counts, ε = 1 each", "20", percent(each), percent(u.off.each)], ["An even map", "0", percent(even), percent(u.off.even)]]);
  assert.match(await page.textContent(".says:visible"), /1,000 simulated vehicles on 20 days.*0\.75 km wide.*From 8:00 to 9:00 .*For the same price daily counts say nothing; for 20 times the price they err by /);
  const drawn = () => page.$$eval("#fleet canvas[role=img]", (all) => all.map((c) => c.toDataURL()));
  await calm(page, 300);
  const [morning, slider] = [await drawn(), page.locator("#slot")];
  assert.equal(new Set(morning).size, 3);
  await page.locator("#a-period").fill("10"); // ε = 6.6, or daily counts would be as empty at each time
  await settled(page);
  const before = await drawn();
  await slider.focus();
  for (const key of ["ArrowRight", "ArrowUp", "PageUp", "ArrowRight"]) await page.keyboard.press(key);
  await settled(page);
  const at = Number(await slider.inputValue());
  assert.ok(at > 10 && at < 18, `the keys lead to ${at}`);
  assert.equal(await slider.getAttribute("aria-valuetext"), `${at}:00 to ${at + 1}:00`);
  assert.equal(await page.textContent("#slot + output"), `${at}:00 to ${at + 1}:00`);
  assert.match(page.url(), new RegExp(`period=6.6.*slot=${at}&`));
  const after = await drawn();
  for (const i of [0, 1, 2]) assert.notEqual(after[i], before[i], `map ${i} does not follow the slider`);
  await page.locator("#slot").fill("2");
  await page.waitForFunction(() => /2:00 to 3:00 nobody is on the map/.test(document.querySelector("#main .says:last-child").closest("main").textContent));
  const link = await open(t, `${server.url}#view=fleet&slot=${at}&period=6.6`);
  await settled(link);
  assert.equal(await link.inputValue("#slot"), String(at), "a link shows another time");
  for (const box of await page.$$(".wide")) assert.ok(await box.evaluate((e) => e.scrollWidth <= e.clientWidth), "a table is cut");
  const shown = await open(t, `${server.url}#view=fleet`);
  await settled(shown);
  await shot(shown, "fleet");
});

// turned turns a knob of the fleet, and returns after how many ms what is published is of this ε.
const turned = (page, at) => page.evaluate(async (i) => {
  const [since, knob, price] = [performance.now(), document.querySelector("#a-period"), document.querySelector("#fleet .typical p")];
  knob.value = i;
  knob.dispatchEvent(new Event("input"));
  knob.dispatchEvent(new Event("change"));
  const epsilon = knob.getAttribute("aria-valuetext");
  while (!price.textContent.startsWith(`${epsilon} for`) && performance.now() < since + 60_000) await new Promise((done) => setTimeout(done, 10));
  return performance.now() - since;
}, String(at));

test("a knob of the fleet answers at once", async (t) => {
  const page = await open(t, `${server.url}#view=fleet`);
  await settled(page);
  for (const at of [9, 3]) { // ε = 4 and 0.5
    const ms = await turned(page, at);
    t.diagnostic(`the fleet after ${Math.round(ms)} ms`);
    assert.ok(ms < 5000, `the fleet comes after ${ms} ms`); // of a machine that does much else
  }
});

test("30 vehicles of two days on 1,500 cells work in every view", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [traces, model] = [join(folder, "traces.csv"), join(folder, "model.avro")];
  const lines = ["user_id,timestamp,latitude,longitude"];
  for (let u = 0; u < 30; u++) {
    for (let i = 0; i < 720; i++) { // along streets, to and fro
      const way = Math.abs(((4 * i * (1 + u % 3) + 40 * u) % 400) - 200) / 200;
      const [lat, lon] = u % 2 ? [53.40 + 0.09 * way, -3 + 0.005 * u] : [53.40 + 0.003 * u, -3 + 0.148 * way];
      lines.push(`van-${String(u).padStart(2, "0")},${1769385600 + 240 * i}000,${lat.toFixed(5)},${lon.toFixed(5)}`);
    }
  }
  writeFileSync(traces, lines.join("\n"));
  const text = execFileSync(process.env.GEODITHER, ["train", "--box", "53.40,-3,53.49,-2.85", "--cell", "258m", "--step", "240s", "--out", model, traces], { stdio: "pipe" });
  const served = await own(t, ["explore", "--model", model, traces]);
  const page = await open(t, `${served.url}#view=fleet`);
  const { width, height } = await page.evaluate(async () => (await fetch("api/map")).json());
  assert.ok(width * height > 1450 && width * height < 1650, `${width} by ${height} cells: ${text}`);
  await settled(page);
  await page.click("#tab-step");
  await settled(page);
  assert.match(await page.textContent("#caption"), /^van-\d+ is really at/);
  await page.click("#tab-day");
  await settled(page);
  await page.waitForFunction(() => /^Anybody can smooth/.test(document.querySelector("#day-caption").textContent));
  await shot(page, "vans-day");
  await page.click("#tab-fleet");
  await settled(page);
  assert.match(await page.textContent(".says:visible"), /30 vehicles on 2 days.*From 8:00 to 9:00 a typical day says nothing at this ε/);
  assert.match(await page.textContent("#fleet .typical"), /ε = 1 for both daysshows nothing/);
  await shot(page, "vans-fleet");
});

test("of one day there is no typical day, and the page has words for it", async (t) => {
  const { traces, model } = town(t, "1km", 50);
  const served = await own(t, ["explore", "--model", model, traces]);
  const page = await open(t, `${served.url}#view=fleet&slot=16&period=20`);
  await settled(page);
  assert.match(await page.textContent(".says:visible"), /51 vehicles on one day, 2026-01-26\..*A typical day needs more than one day/);
  assert.equal(await page.locator("#fleet tbody tr").count(), 3, "daily counts of one day stand there twice");
  await shot(page, "one-day");
});

test("named areas of an outline are the zones of the fleet", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "zones.geojson");
  const zone = (name, west, south, east, north) => ({ type: "Feature", properties: { name }, geometry: {
    type: "Polygon", coordinates: [[[west, south], [east, south], [east, north], [west, north], [west, south]]] } });
  writeFileSync(file, JSON.stringify({ type: "FeatureCollection", features: [zone("Centre", -2.995, 53.395, -2.955, 53.425),
    zone("Anfield", -2.985, 53.425, -2.945, 53.445), zone("Norris Green", -2.945, 53.43, -2.905, 53.455), zone("Fazakerley", -2.95, 53.455, -2.89, 53.485)] }));
  const served = await own(t, ["explore", "--outline", file]);
  const page = await open(t, `${served.url}#view=fleet&slot=12`);
  await settled(page);
  assert.match(await page.textContent(".says:visible"), /Zones are the 4 named areas of the outline, and the rest of the map/);
  const words = await saved(page, (svg) => [...svg.querySelectorAll("text")].map((e) => e.textContent));
  for (const name of ["Centre", "Anfield", "Norris Green", "Fazakerley"]) assert.equal(words.filter((word) => word === name).length, 3, `${words}`);
  const truth = await page.evaluate(async () => {
    const { data } = (await (await fetch("api/fleet?slot=12")).json()).truth;
    return new Set(atob(data).match(/../gs)).size; // cells have the number of their zone
  });
  assert.ok(truth >= 3 && truth <= 6, `${truth} different numbers`);
  await shot(page, "zones");
});

test("all controls are on a low screen, map and knobs on that of a phone, and a map fills its card", async (t) => {
  for (const [width, height] of [[1280, 720], [390, 844]]) {
    const page = await open(t, server.url, { viewport: { width, height } });
    for (const view of ["step", "day", "fleet"]) {
      await page.click(`#tab-${view}`);
      await settled(page);
      for (const tab of await page.$$("[role=tab]")) {
        assert.ok(await tab.evaluate((e) => e.getBoundingClientRect().left >= 0 && e.getBoundingClientRect().right <= innerWidth && e.scrollWidth <= e.clientWidth), "a tab is cut");
      }
      if (width > 1000) {
        const low = await page.$$eval(`#a-again, #a-mechanism, #take-config, #${view} .legend`, (all) => Math.max(...all.map((e) => e.getBoundingClientRect().bottom)));
        assert.ok(low <= height, `${view}: controls end at ${low}`);
      }
      const room = await saved(page, (svg) => {
        const part = svg.querySelector("svg");
        const [, wide, high] = [...part.querySelectorAll("path[fill=none]")].map((e) => e.getAttribute("d").match(/^M0 0h([\d.]+)v([\d.]+)h-\1Z$/)).find((d) => d).map(Number);
        const scale = Number([...part.querySelectorAll("path[fill=none]")].find((e) => /^M0 0h/.test(e.getAttribute("d"))).getAttribute("transform").match(/scale\(([\d.]+)/)[1]);
        return wide * scale * high * scale / (Number(part.getAttribute("width")) * Number(part.getAttribute("height")));
      });
      assert.ok(room > 0.95 && room < 1.05, `${view} at ${width}: the map fills ${room} of its card`);
      if (width > 1000) continue;
      const ends = await page.$$eval(`#${view} .picture canvas, #slot, #a-period, #a-epsilon, #a-interval`, (all) => all.map((e) => e.getBoundingClientRect()).filter((r) => r.width).map((r) => r.bottom));
      assert.ok(Math.max(...ends) <= height, `${view}: map and knobs end at ${ends}`);
    }
  }
});

test("what is believed a little is seen, in the dark too", async (t) => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(t, `${server.url}#view=step&user=bus-4720&fix=189${often}`, { colorScheme });
    await settled(page);
    const contrasts = await saved(page, (svg) => {
      const light = (c) => c.map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0.05);
      const rgb = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().match(/[0-9a-f]{2}/g).map((x) => parseInt(x, 16));
      const [paper, ink] = [rgb("--paper"), rgb("--posterior")];
      const all = [...svg.querySelectorAll("path")].filter((e) => e.getAttribute("fill") === getComputedStyle(document.documentElement).getPropertyValue("--posterior").trim());
      return all.flatMap((e) => {
        const mixed = light(paper.map((x, i) => x + (ink[i] - x) * Number(e.getAttribute("fill-opacity"))));
        return Array(e.getAttribute("d").match(/M/g).length).fill(Math.max(mixed, light(paper)) / Math.min(mixed, light(paper)));
      }).sort((a, b) => a - b);
    });
    const median = contrasts[contrasts.length >> 1];
    assert.ok(median > (colorScheme === "dark" ? 1.3 : 1.1), `${colorScheme}: the contrast of half of ${contrasts.length} cells is below ${median}`);
  }
});

test("a fleet that nobody waits for any more is given up", async (t) => {
  const page = await open(t, `${server.url}#view=fleet`);
  await settled(page);
  let held = 0;
  const epsilon = (r) => new URL(r.url()).searchParams.get("epsilon");
  await page.route(/api\/fleet\?/, (route) => (/^[23]$/.test(epsilon(route.request())) ? void held++ : route.continue()));
  const ended = (e) => page.waitForEvent("requestfailed", (r) => /api\/fleet/.test(r.url()) && epsilon(r) === e);
  const turn = (i) => page.$eval("#a-period", (e, to) => {
    e.value = to;
    e.dispatchEvent(new Event("change"));
  }, String(i));
  const asked = (e) => page.waitForRequest((r) => /api\/fleet/.test(r.url()) && epsilon(r) === e);
  let waits = asked("2");
  await turn(7); // ε = 2, which is not answered
  await waits;
  const first = ended("2");
  waits = asked("3");
  await turn(8); // ε = 3, neither
  await first;
  await waits;
  const second = ended("3");
  await turn(9); // ε = 4, which is
  await second;
  await settled(page);
  assert.equal(held, 2);
  assert.match(await page.textContent("#fleet .typical"), /ε = 4 for all 20 days/);
  assert.equal(await page.isVisible("#wrong"), false);
});

test("the address has what is seen, and Back goes back to it", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40${often}`);
  await settled(page);
  await page.locator("#a-epsilon").fill("9"); // ε = 4
  await settled(page);
  await page.selectOption("#a-mechanism", "lattice");
  await settled(page);
  assert.match(page.url(), /epsilon=4.*fix=40$/);
  assert.match(page.url(), /mechanism=lattice/);
  const facts = await page.textContent(".facts");
  const other = await open(t, page.url());
  await settled(other);
  assert.equal(await other.textContent(".facts"), facts, "a link shows other numbers");
  assert.equal(await other.$eval("#a-mechanism", (e) => e.value), "lattice");
  await page.focus("#tab-step");
  await page.keyboard.press("ArrowRight");
  await settled(page);
  assert.equal(await page.getAttribute("#tab-day", "aria-selected"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-day");
  await page.goBack();
  await settled(page);
  assert.equal(await page.textContent(".facts"), facts);
  await page.goBack();
  await settled(page);
  assert.equal(await page.$eval("#a-mechanism", (e) => e.value), "codebook");
  assert.match(page.url(), /epsilon=4/);
  await page.click("#tab-fleet");
  await settled(page);
  await page.click("#tab-step");
  await settled(page);
  await page.goBack();
  await page.goBack();
  await settled(page);
  assert.match(page.url(), /view=step&user=bus-4722.*epsilon=4.*fix=40$/);
  assert.equal(await page.$eval("#a-epsilon", (e) => e.value), "9");
});

test("a picture, its numbers and its settings can be saved", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40&epsilon=4&interval=1&mechanism=lattice&budget=200&hours=06:00-23:00`);
  await settled(page);
  const take = async (what) => {
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(`#take-${what}`)]);
    return { name: file.suggestedFilename(), content: readFileSync(await file.path()) };
  };
  const picture = await take("png");
  assert.equal(picture.name, "bus-4722-step-41.png");
  assert.equal(picture.content.subarray(1, 4).toString(), "PNG");
  // An SVG is vectors alone, in the colours of here, and shows what the screen shows.
  const drawn = async () => {
    const { name, content } = await take("svg");
    assert.match(name, /svg$/);
    return page.evaluate((text) => {
      const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
      const count = (at) => svg.querySelectorAll(at).length;
      return { root: svg.nodeName, images: count("image"), maps: count("svg > svg > svg"), paths: count("path"), words: [...svg.querySelectorAll("text")].map((e) => e.textContent),
        charts: count("polyline, path[stroke-dasharray]:not([transform])"), inks: [...new Set([...svg.querySelectorAll("[stroke]")].map((e) => e.getAttribute("stroke")))] };
    }, content.toString());
  };
  const one = await drawn();
  assert.ok(one.root === "svg" && one.images === 0 && one.maps === 1 && one.paths > 20, JSON.stringify(one));
  for (const word of ["bus-4722", "Walton", /^published: /, /km$/]) assert.ok(one.words.some((w) => w.match(word)), String(one.words));
  assert.ok(one.inks.every((ink) => ink === "none" || /^#/.test(ink)), String(one.inks));
  await page.uncheck("#show-truth");
  assert.ok(!(await drawn()).words.includes("bus-4722"), "the truth is drawn though it is not to be shown");
  await page.check("#show-truth");
  await page.click("#four");
  await settled(page);
  const four = await drawn();
  assert.equal(four.maps, 4);
  assert.ok(four.words.some((w) => /^ε = 4: within/.test(w)), String(four.words));
  await page.click("#four");
  await page.click("#tab-day");
  await settled(page);
  const day = await drawn();
  assert.ok(day.maps === 1 && day.words.includes("How far off the guess is") && day.inks.some((ink) => /^rgb/.test(ink)), JSON.stringify(day));
  const course = await page.evaluate(async () => (await fetch("api/course?user=bus-4722&mechanism=lattice&epsilon=4&budget=200&hours=06:00-23:00")).json());
  const lines = (await take("numbers")).content.toString().trim().split("\n");
  assert.equal(lines.length, course.total + 1);
  const last = Object.fromEntries(lines[0].split(",").map((name, i) => [name, lines.at(-1).split(",")[i]]));
  assert.equal(last.time, new Date(course.time_ms.at(-1)).toISOString());
  for (const name of ["truth_x", "estimate_y", "spent"]) assert.equal(Number(last[name]), course[name].at(-1));
  const config = (await take("config")).content.toString();
  assert.match(config, /mechanism: lattice\n  epsilon: 4\n  delta: 0.01\n  hours: .*\n  interval: 30s\n  budget: .epsilon: 200, window: 24h/);
});

test("the price of each ε stands below the knob, and can be picked", async (t) => {
  const page = await open(t, `${server.url}#view=step&user=bus-4722&fix=40${often}`);
  await page.waitForSelector("#frontier .here");
  const spent = await page.evaluate(async () =>
    (await (await fetch("api/course?user=bus-4722&epsilon=2")).json()).summary);
  const label = await page.getAttribute("#frontier", "aria-label");
  assert.ok(label.includes(`ε = 2: Σε = ${spent.spent}, `), label);
  await page.click("#frontier circle:nth-of-type(3)");
  await settled(page);
  assert.match(page.url(), /epsilon=2/);
  assert.equal(await page.textContent(".knobs output"), "ε = 2");
});

test("the topic of the demo, live, and what becomes of the page when the broker goes", async (t) => {
  const demo = await own(t, ["demo"]);
  const page = await open(t, demo.url, { faulty: true });
  const asked = new Set();
  page.on("request", (r) => asked.add(new URL(r.url()).pathname));
  await page.waitForFunction(() => /is most likely at/.test(document.querySelector("#live-caption")?.textContent ?? ""));
  assert.match(await page.textContent("#badge"), /Public side/);
  assert.match(await page.textContent("#live-model"), /without differential privacy/);
  const records = () => page.$eval("#live-facts dd", (e) => Number(e.textContent.replace(/,/g, "")));
  const first = await records();
  await page.waitForFunction(
    (n) => Number(document.querySelector("#live-facts dd").textContent.replace(/,/g, "")) > n + 20, first);
  await page.focus("#live-user");
  await page.waitForSelector("#live-user-names option:nth-child(2)", { state: "attached" });
  const chosen = await page.$eval("#live-user-names option:nth-child(2)", (o) => o.value);
  await pick(page, "#live-user", chosen);
  await page.waitForFunction((name) => document.querySelector("#live-caption").textContent.startsWith(`${name} is most likely`), chosen);
  await shot(page, "live");
  await page.click("#tab-live-fleet");
  await page.waitForSelector("#live-fleet-facts dd:visible", { timeout: 60_000 });
  await page.waitForFunction(() => /^\d\d:\d\d to \d\d:\d\d$/.test(document.querySelector("#window").getAttribute("aria-valuetext")));
  const live = await page.evaluate(async () => (await (await fetch("api/live")).json()).windows.at(-1));
  assert.ok(live.vehicles > 0);
  const maps = await page.$$("#live-fleet canvas[role=img]");
  assert.equal(maps.length, 1);
  assert.equal(await page.locator(".zoom button:visible").count(), 3);
  assert.match(await page.textContent("#live-fleet-facts"), /Vehicles\d+A zone/);
  for (const path of asked) assert.match(path, /^\/(api\/live|icon)/, "the public view asks for what is not public");
  await page.click("#beyond");
  assert.match(await page.textContent("#badge"), /Secret side/);
  assert.deepEqual(await page.evaluate(async () => (({ epsilon, interval, budget }) => [epsilon, interval, budget])((await (await fetch("api/about")).json()).defaults)),
    [6.6, 80, 20], "the secret side has other settings than the demo");
  assert.equal(await page.isVisible("#tab-live"), false, "the views of both sides stand beside each other");
  await page.click("#beyond");
  await page.waitForSelector("#tab-live[aria-selected=true]");
  await end(demo.child);
  await page.waitForSelector("#wrong:not([hidden])");
  assert.match(await page.textContent("#wrong"), /Is geodither still running/);
});

test("a topic without a record, and a model that is none", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "empty-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const broker = await own(t, ["broker", "--port", "0"], /127\.0\.0\.1:\d+/);
  const [traces, model, key, config] = ["traces.csv", "model.avro", "noise.key", "geodither.yml"]
    .map((name) => join(folder, name));
  const lines = ["user_id,timestamp,latitude,longitude"];
  for (let i = 0; i < 40; i++) lines.push(`user,${1769443200 + 60 * i}000,53.4${i % 5},-2.9${i % 7}`);
  writeFileSync(traces, lines.join("\n"));
  writeFileSync(config, `brokers: ["${broker.url}"]\ngroup: g\nmodel: model.avro\nkey_file: noise.key\n` +
    "topics: {raw: raw, sanitized: out, partitions: 2}\nstate_dir: state\n" +
    "release: {mechanism: codebook, epsilon: 1, budget: none}\n");
  const run = (...args) => execFileSync(process.env.GEODITHER, args, { stdio: "pipe" });
  run("train", "--box", "53.4,-3,53.46,-2.9", "--cell", "500m", "--step", "60s", "--out", model, traces);
  run("key", "new", key);
  run("topics", "create", "-c", config);
  const served = await own(t, ["explore", "-c", config]);
  const page = await open(t, served.url);
  await page.waitForFunction(() => /out has no record yet/.test(document.querySelector("#live-caption")?.textContent ?? ""));
  assert.equal(await page.isVisible("#wrong"), false);
  writeFileSync(model, "broken");
  assert.throws(() => run("explore", "-c", config), (e) => /model\.avro.*geodither train/.test(e.stderr));
});

test("what cannot be is said, and goes away", async (t) => {
  const page = await open(t, server.url, { faulty: true });
  await page.route(/api\/.*epsilon=0\.5/, (route) => route.fulfill({ status: 400, json: { error: "ε is too small" } }));
  await page.locator("#a-epsilon").fill("3"); // ε = 0.5
  await settled(page);
  assert.match(await page.textContent("#wrong"), /ε is too small/);
  const opacity = () => page.$eval("#step .picture canvas", (e) => Number(getComputedStyle(e).opacity));
  assert.ok(await opacity() < 0.5, "the picture of other settings stands as if it were of these");
  await page.unrouteAll();
  await page.locator("#a-epsilon").fill("4"); // ε = 1
  await settled(page);
  assert.equal(await page.isVisible("#wrong"), false);
  assert.equal(await opacity(), 1);
});

// sizes of screens that the views are looked at.
const sizes = { phone: [390, 844], tablet: [768, 1024], desk: [1360, 900] };

test("every view at three sizes, light and dark, without a jump", async (t) => {
  for (const [size, [width, height]] of Object.entries(sizes)) {
    for (const colorScheme of ["light", "dark"]) {
      for (const view of ["step", "day", "fleet"]) {
        const page = await open(t, `${server.url}#view=${view}`, { viewport: { width, height }, colorScheme });
        await settled(page);
        const [shift, over, paper] = await page.evaluate(() =>
          [window.shift, document.documentElement.scrollWidth - innerWidth, getComputedStyle(document.documentElement).backgroundColor]);
        t.diagnostic(`${view}, ${size}, ${colorScheme}: layout shift ${shift.toFixed(3)}`);
        assert.ok(shift < 0.1, `${view} on a ${size} jumps by ${shift}`);
        assert.ok(over <= 0, `${view} is ${over} wider than a ${size}`);
        assert.equal(paper, colorScheme === "dark" ? "rgb(16, 24, 28)" : "rgb(251, 251, 249)");
        await shot(page, `${view}-${size}-${colorScheme}`);
      }
    }
  }
});

test("the README's pictures show what the page shows", async (t) => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(t, server.url, { colorScheme, viewport: { width: 1280, height: 720 } });
    await settled(page);
    const file = new URL(`../../.github/page-${colorScheme}.png`, import.meta.url);
    if (process.env.PICTURES) await page.locator(".pictures").screenshot({ path: fileURLToPath(file) });
    const picture = readFileSync(file);
    assert.ok(picture.length < 150_000, `${file} has ${picture.length} bytes`);
    assert.equal(picture.readUInt32BE(16), 848, "the picture has another width");
    // What is in the pictures: where this differs, look at the page, and make them again with PICTURES=1.
    assert.match(await page.textContent("#caption"), /^bus-4733 is really at the red dot.*the blue cross, 920 m off, and the circle/);
    assert.match(await page.textContent("#step-facts"), /Off now920 m95 % within3\.2 kmΣε so far13\.2Trace: median670 mModel alone2\.2 kmTrace: Σε19\.8/);
    assert.deepEqual(await page.$$eval(".knobs output, .knobs select", (all) => all.filter((e) => e.clientWidth).map((e) => (e.selectedOptions?.[0] ?? e).textContent)),
      ["ε = 6.6", "40 min", "Σε ≤ 20", "at any time", "codebook (default)"]);
    const words = await saved(page, (svg) => [...svg.querySelectorAll("text")].map((e) => e.textContent));
    for (const word of ["bus-4733", "published: 920 m off", "Anfield"]) assert.ok(words.includes(word), `${words} lacks ${word}`);
  }
});

test("axe finds nothing to mend, light and dark", async (t) => {
  const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(t, server.url, { colorScheme });
    await settled(page);
    await page.evaluate(axe);
    for (const tab of await page.$$("[role=tab]")) {
      await tab.click();
      await settled(page);
      await page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished))); // nothing fades any more
      const { violations } = await page.evaluate(() => window.axe.run());
      const found = violations.map((v) => `${v.id}: ${v.help}, at ${v.nodes.map((n) => n.target).join(" and ")}`);
      assert.deepEqual(found, [], `${colorScheme}, ${await tab.textContent()}`);
    }
  }
});

test("ten thousand users are searched, and a few rows of them exist", async (t) => {
  const { traces, model } = town(t, "500m", 10_000);
  const served = await own(t, ["explore", "--model", model, traces]);
  const page = await open(t, served.url);
  await settled(page);
  await page.click("#user");
  await page.waitForSelector("#user-names option", { state: "attached" });
  assert.equal((await page.$$("#user-names option")).length, 200);
  await page.fill("#user", "7777");
  await page.waitForSelector('#user-names option[value="user-07777"]', { state: "attached" });
  await pick(page, "#user", "user-07777");
  await settled(page);
  // The step comes first, and how many reports there are with the course.
  await page.waitForFunction(() => /, 1 of 400/.test(document.querySelector("#clock").textContent));
  await page.locator("#time").fill("399");
  await settled(page);
  assert.match(await page.textContent("#clock"), /, 400 of 400/);
  assert.match(await page.textContent("#clock"), /^2026-01-26 22:39:00 UTC/);
  await pick(page, "#user", "nobody");
  await page.waitForFunction(() => document.activeElement.id !== "user");
  assert.equal(await page.inputValue("#user"), "user-07777");
});

test("a server that ended is said to have ended", async (t) => {
  const gone = await serve(["explore"]);
  const page = await open(t, gone.url, { faulty: true });
  await settled(page);
  await end(gone.child);
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector("#wrong:not([hidden])");
  assert.match(await page.textContent("#wrong"), /Is geodither still running/);
});

test("the token is needed, at loopback and beyond", async (t) => {
  for (const listen of ["127.0.0.1:0", "0.0.0.0:0"]) {
    const served = await own(t, ["explore", "--listen", listen]);
    const at = new URL(served.url);
    at.hostname = "127.0.0.1";
    assert.match(at.pathname, /^\/\w{20,}\/$/);
    const page = await open(t, at.href);
    await settled(page);
    assert.match(await page.textContent("#caption"), /is really at/);
    for (const path of ["/", "/api/users", "/api/course"]) {
      at.pathname = path;
      assert.equal((await fetch(at)).status, 404);
    }
  }
});
