// Opens pages in headless Chromium, works on them with a real pointer and a real keyboard, and lets
// axe-core look at them; takes pictures on demand. No part of `cargo test`: it needs node, Chromium
// and axe-core, which a machine may lack.
//
//   npm install --prefix AXE axe-core
//   node tests/browser/check.mjs [--axe AXE] [--shots FOLDER] [--tiersim COMMAND] [--file SCENARIO]
//     out/NAME/report.html ...
//
// A page may be one of tiersim serve as well: its address, such as http://127.0.0.1:7878/scenario.
// It may ask its own server and nobody else.
// On a page with sliders it turns some of them by pointer and keyboard; with --tiersim it asks that
// command the same, from the project's folder, and every number must be equal to the last digit.
// With --file, the file that the page is served of, it breaks, mends and changes that beside the page.
// Ends with 1 if anything fails, or if axe-core finds what it calls serious or critical.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const options = { axe: null, shots: null, tiersim: null, file: null };
const pages = [];
for (let at = 2; at < process.argv.length; at += 1) {
  const word = process.argv[at];
  if (["--axe", "--shots", "--tiersim", "--file"].includes(word)) {
    at += 1;
    options[word.slice(2)] = process.argv[at];
  } else {
    pages.push(/^http:/.test(word) ? word : resolve(word));
  }
}
const axe = options.axe && readFileSync(join(options.axe, "node_modules/axe-core/axe.min.js"), "utf8");

// The protocol over a pipe: messages end in a zero byte.
const profile = mkdtempSync(join(tmpdir(), "tiersim-browser-"));
const browser = spawn(process.env.CHROMIUM || "chromium", [
  "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
  "--remote-debugging-pipe", `--user-data-dir=${profile}`,
], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map();
const events = [];
let number = 0;
let kept = "";
browser.stdio[4].setEncoding("utf8").on("data", (data) => {
  const messages = (kept + data).split("\0");
  kept = messages.pop();
  for (const text of messages) {
    const message = JSON.parse(text);
    if (message.id) {
      const { done, failed } = waiting.get(message.id);
      waiting.delete(message.id);
      message.error ? failed(new Error(message.error.message)) : done(message.result);
    } else {
      events.push(message);
    }
  }
});
const send = (method, params = {}, sessionId = undefined) => new Promise((done, failed) => {
  number += 1;
  waiting.set(number, { done, failed });
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
});

let failures = 0;
const check = (is, what) => {
  if (!is) {
    failures += 1;
    console.log(`  FAILED: ${what}`);
  }
};

class Tab {
  static async open(page) {
    const { targetId } = await send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab();
    Object.assign(tab, { targetId, sessionId, errors: events.length });
    for (const domain of ["Page", "Runtime", "Network", "Log"]) { await tab.do(`${domain}.enable`); }
    tab.errors = events.length;
    await tab.size(1280, 900);
    await tab.do("Page.navigate", { url: /^http:/.test(page) ? page : pathToFileURL(page).href });
    await tab.until("document.readyState === 'complete'");
    return tab;
  }
  do(method, params) { return send(method, params, this.sessionId); }
  async run(expression) {
    const { result, exceptionDetails } = await this.do(
      "Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) { throw new Error(exceptionDetails.exception.description); }
    return result.value;
  }
  async until(expression) {
    for (let turn = 0; turn < 200; turn += 1) {
      if (await this.run(expression)) { return; }
      await new Promise((done) => setTimeout(done, 25));
    }
    throw new Error(`never: ${expression}`);
  }
  size(width, height) {
    return this.do("Emulation.setDeviceMetricsOverride",
      { width, height, deviceScaleFactor: 1, mobile: false });
  }
  media(features, media = "") { return this.do("Emulation.setEmulatedMedia", { media, features }); }
  async middle(selector) {
    return this.run(`(() => { const e = document.querySelector(${JSON.stringify(selector)});
      if (!e) { return null; } e.scrollIntoView({ block: "center" });
      const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()`);
  }
  async point(selector) {
    const at = await this.middle(selector);
    if (!at) { throw new Error(`nothing is ${selector}`); }
    await this.do("Input.dispatchMouseEvent", { type: "mouseMoved", x: at[0], y: at[1] });
    return at;
  }
  async click(selector) {
    const [x, y] = await this.point(selector);
    for (const type of ["mousePressed", "mouseReleased"]) {
      await this.do("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
    }
  }
  async key(key, code, text) {
    await this.do("Input.dispatchKeyEvent",
      { type: "keyDown", key, code: key, windowsVirtualKeyCode: code, text });
    await this.do("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: code });
  }
  async shot(file) {
    const { cssContentSize: { width, height } } = await this.do("Page.getLayoutMetrics");
    const clip = { x: 0, y: 0, width, height: Math.min(height, 9000), scale: 1 };
    const { data } = await this.do(
      "Page.captureScreenshot", { format: "png", clip, captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
}

async function works(tab) {
  const sorted = ".wide:has(thead button) thead th:nth-child(1)";
  if (await tab.run(`!!document.querySelector("${sorted} button")`)) {
    const names = `[...document.querySelector(".wide:has(thead button) tbody").rows].map((r) => r.cells[0].innerText)`;
    await tab.click(`${sorted} button`);
    check(await tab.run(`document.querySelector("${sorted}").ariaSort === "ascending"`), "a click sorts");
    const up = await tab.run(names);
    const want = [...up].sort((a, b) => a.localeCompare(b));
    if (up.every((name) => Number.isNaN(parseFloat(name)))) {
      check(JSON.stringify(up) === JSON.stringify(want), "rows are in their order");
    }
    await tab.key("Enter", 13, "\r");
    check(await tab.run(`document.querySelector("${sorted}").ariaSort === "descending"`), "Enter sorts");
  }
  // Values as files write them are sorted by one unit.
  const written = `[...document.querySelectorAll(".wide table")].find((table) => table.tBodies[0] &&
    [...table.tHead.rows[0].cells].some((head) => head.innerText === "value" && head.querySelector("button")) &&
    [...table.tBodies[0].rows].some((row) => /^[gmt]i?b\\(/.test(row.cells[1].innerText)))`;
  if (await tab.run(`!!${written}`)) {
    const bytes = await tab.run(`(() => { const table = ${written};
      [...table.tHead.rows[0].cells].find((head) => head.innerText === "value").querySelector("button").click();
      const units = { gb: 1e9, gib: 2 ** 30, mb: 1e6, mib: 2 ** 20, tb: 1e12, tib: 2 ** 40 };
      return [...table.tBodies[0].rows].map((row) => /^([gmt]i?b)\\((.*)\\)$/.exec(row.cells[1].innerText))
        .filter(Boolean).map((found) => units[found[1]] * Number(found[2])); })()`);
    check(bytes.every((size, at) => at === 0 || bytes[at - 1] <= size), `sizes are in their order: ${bytes}`);
  }
  if (await tab.run(`!!document.querySelector(".marks a")`)) {
    // The last one lies on top.
    await tab.point(".marks a:last-child");
    check(await tab.run(`!document.querySelector(".tip").hidden`), "the pointer shows a point");
    check(await tab.run(`document.querySelector(".tip").textContent ===
      document.querySelector(".marks a:last-child").getAttribute("aria-label")`), "its own numbers are shown");
    await tab.key("Escape", 27);
    check(await tab.run(`document.querySelector(".tip").hidden`), "Escape hides them");
    await tab.run(`document.querySelector(".marks a").focus()`);
    check(await tab.run(`!document.querySelector(".tip").hidden`), "the focus shows a point");
    await tab.key("Enter", 13, "\r");
    check(await tab.run(`location.hash !== "" && document.querySelector(":target") !== null`),
      "a point leads to its case");
    const folded = `document.querySelector("h3:target ~ details, h4:target ~ details")`;
    // The page hears of the new place after it is there.
    await tab.until(`!${folded} || ${folded}.open`);
  }
  if (await tab.run(`!!document.querySelector(".keys button")`)) {
    const hidden = `document.querySelectorAll(".sheet .off").length`;
    await tab.click(".keys button");
    check(await tab.run(hidden) > 0, "an entry of the legend hides its series");
    await tab.click(".keys button");
    check(await tab.run(hidden) === 0, "and shows it again");
  }
  await tab.run(`(() => { window.copied = null;
    navigator.clipboard.writeText = (t) => { window.copied = t; return Promise.resolve(); }; })()`);
  if (!await tab.run(`!!document.querySelector(".copy button")`)) { return; }
  await tab.click(".copy button");
  check(await tab.run(`window.copied.split("\\n")[0].includes("\\t")`), "a table is copied as TSV");
  await tab.click(".copy button + button");
  check(await tab.run(`window.copied.split("\\n")[1].startsWith("|---|")`), "and as Markdown");
}

// The words of a line for a shell with single quotes.
function words(line) {
  const found = line.match(/(?:[^\s']|'[^']*')+/g);
  return found.map((word) => word.replace(/'([^']*)'/g, "$1"));
}

// What the command says of the same, by case: the figures of the page's table, or null.
function commanded(line) {
  const out = mkdtempSync(join(tmpdir(), "tiersim-what-if-"));
  const [, ...asked] = words(line);
  let said;
  try {
    said = execFileSync(options.tiersim,
      [...asked, "--set", "expect=[]", "--format", "json", "--out", out], { encoding: "utf8", stdio: "pipe" });
  } catch (ended) {
    // A case that runs out of memory has its figures, and ends with 1.
    if (ended.status !== 1) { throw ended; }
    said = ended.stdout;
  }
  rmSync(out, { recursive: true, force: true });
  return JSON.parse(said).results.map((one) => one.oom ? null : [
    ...(one.serving ? [one.serving.ttft_ms.mean, one.serving.tpot_ms.mean] : [one.step_ms.mean]),
    Object.values(one.peak_bytes)[0],
  ]);
}

async function simulates(tab) {
  if (!await tab.run(`!!document.querySelector(".what-if")`)) { return; }
  const place = `document.querySelector(".what-if")`;
  await tab.until(`["ready", "failed", "refused"].includes(${place}.dataset.state)`);
  const state = `${place}.dataset.state`;
  check(await tab.run(state) === "ready",
    `the simulator runs: ${await tab.run(`${place}.querySelector("[role=status]").textContent`)}`);
  if (await tab.run(state) !== "ready") { return; }
  const shown = `[...${place}.querySelectorAll("tbody tr")].map((row) => {
    const cells = [...row.querySelectorAll("td[data-value]")].map((cell) => cell.dataset.value);
    return cells.every((value) => value === "") ? null : cells.map(Number); })`;
  const ms = [];
  const holds = async (what) => {
    await tab.until(`${state} !== "running"`);
    ms.push(Number(await tab.run(`${place}.dataset.ms`)));
    if (await tab.run(state) !== "ready") {
      check(false, `${what}: ${await tab.run(`${place}.querySelector("[role=status]").textContent`)}`);
      return;
    }
    if (!options.tiersim) { return; }
    const line = await tab.run(`${place}.querySelector("code").textContent`);
    const [here, there] = [await tab.run(shown), commanded(line)];
    check(JSON.stringify(here) === JSON.stringify(there),
      `${what}: ${line}\n    page    ${JSON.stringify(here)}\n    command ${JSON.stringify(there)}`);
  };
  await holds("as reported");
  const before = await tab.run(shown);
  const count = await tab.run(`${place}.querySelectorAll("input").length`);
  await tab.run(`${place}.querySelectorAll("details").forEach((fold) => { fold.open = true; })`);
  const turned = [...new Set([0, 1, Math.floor(count / 2), count - 1])].filter((at) => at < count);
  for (const at of turned) {
    const id = `what-if-${at}`;
    const name = await tab.run(`${JSON.stringify(id)} + " " +
      document.getElementById("${id}").dataset.group + " " + document.getElementById("${id}").dataset.name`);
    const value = `document.getElementById("${id}").value`;
    // The pointer leaves the slider in its middle, and the keyboard goes on from there.
    await tab.click(`#${id}`);
    const middle = Number(await tab.run(value));
    for (let turn = 0; turn < 4; turn += 1) { await tab.key("ArrowLeft", 37); }
    check(Number(await tab.run(value)) === Math.max(0, middle - 4), `${name}: the keyboard turns it`);
    check(await tab.run(`document.getElementById("${id}").getAttribute("aria-valuetext") ===
      document.querySelector("output[for=${id}]").textContent`), `${name}: its value is said`);
    await holds(name);
  }
  // A case that did not fit may fit at the far end, and then has figures that no case had before.
  if ((await tab.run(shown)).includes(null)) {
    await tab.run(`document.getElementById("what-if-${count - 1}").focus()`);
    await tab.key("End", 35);
    await holds("the last slider at its end");
  }
  if (options.shots) { await tab.shot(join(options.shots, "what-if-turned.png")); }
  const how = await tab.run(`${place}.dataset.runs`);
  // The page says it a moment later, once for many turns.
  await tab.until(`/ all exact; the answer took \\d+ ms\\.$/.test(${place}.querySelector(".said").textContent)`);
  const of = how === "server" ? "the scenario" : "the report";
  check(await tab.run(`${place}.querySelector("caption").textContent`) ===
    `Cases as they are set, and as ${of} has them`, "the table says what is held against");
  if (how === "server") {
    const values = `JSON.stringify([...document.querySelectorAll(".knob input")].map((one) => one.value))`;
    const set = await tab.run(values);
    const turned = await tab.run(shown);
    await tab.do("Page.reload");
    await tab.until(`document.readyState === "complete" && ${state} === "ready"`);
    await tab.until(`${values} === ${JSON.stringify(set)}`);
    await tab.until(`${state} === "ready"`);
    check(JSON.stringify(await tab.run(shown)) === JSON.stringify(turned), "what is loaded again is as set");
  }
  await tab.click(".what-if .reset button");
  await holds("all reset");
  check(JSON.stringify(await tab.run(shown)) === JSON.stringify(before), "all reset is as reported");
  if (how === "server") { check(await tab.run(`location.search`) === "", "no setting stays in the address"); }
  console.log(`  sliders: ${count}, in a ${how}; runs took ${ms.join(", ")} ms`);
}

async function edits(tab) {
  if (!await tab.run(`!!document.querySelector(".edit")`)) { return; }
  const wrong = await tab.run(`(() => { const area = document.querySelector(".edit textarea");
    area.value = area.value.replace("schema: 2", "schema: 2, frob: 1"); return area.value.includes("frob"); })()`);
  check(wrong, "the editor has the scenario's text");
  await tab.click(".edit button");
  await tab.until(`document.querySelector(".edit [role=status]").textContent === "Not saved."`);
  const said = await tab.run(`document.querySelector(".edit li").textContent`);
  check(/\.ron:\d+:\d+: .*frob/s.test(said), `what is wrong is said with its place: ${said}`);
}

// What a page says when its scenario is another beside it: no figure of an earlier one, ever.
async function changes(tab) {
  if (!options.file || !await tab.run(`!!document.querySelector(".edit")`)) { return; }
  const place = `document.querySelector(".what-if")`;
  const turn = async (text) => {
    writeFileSync(options.file, text);
    await tab.run(`(() => { const one = document.getElementById("what-if-0");
      one.value = one.value === "0" ? "1" : "0"; one.dispatchEvent(new Event("input")); })()`);
    await tab.until(`${place}.dataset.state !== "running"`);
    return tab.run(`${place}.dataset.state`);
  };
  const said = () => tab.run(`${place}.querySelector(".said").textContent`);
  // What is seen, and not what is there.
  const shown = () => tab.run(`[${place}.querySelector("code").innerText, ...[...${place}
    .querySelectorAll("td[data-value]")].map((cell) => cell.innerText)].filter(Boolean).length`);
  const text = readFileSync(options.file, "utf8");
  const name = text.match(/name: ("[^"]*")/)[1];
  check(await turn(text) === "ready" && await shown() > 1, `the page goes on: ${await said()}`);
  check(await turn("Scenario(") === "error", "what is broken is refused");
  check(await shown() === 0, "of what was refused no figure and no command is shown");
  if (options.shots) { await tab.shot(join(options.shots, "what-if-refused.png")); }
  check(await turn(text) === "ready" && await shown() > 1, `mended it goes on: ${await said()}`);
  const other = text.replaceAll(name, '"another name"');
  check(await turn(other) === "refused", "another scenario is refused");
  check(/changed since this page was made. Load the page again/.test(await said()), await said());
  check(await tab.run(`${place}.querySelectorAll("table, svg, input, code").length`) === 0,
    "nothing of the earlier scenario stays");
  writeFileSync(options.file, text);
}

async function quiet(tab, page) {
  const server = /^http:/.test(page) ? new URL(page).origin + "/" : null;
  const own = events.slice(tab.errors).filter((event) => event.sessionId === tab.sessionId);
  const asked = own.filter((event) => event.method === "Network.requestWillBeSent")
    .map((event) => event.params.request.url).filter((url) => server ? !url.startsWith(server) : !/^(file|blob):/.test(url));
  check(asked.length === 0, `requests: ${asked.join(", ")}`);
  const said = own.filter((event) => event.method === "Log.entryAdded" ||
    event.method === "Runtime.exceptionThrown").map((event) => JSON.stringify(event.params));
  check(said.length === 0, `the browser complains: ${said.join("; ")}`);
}

async function accessible(tab, how) {
  if (!axe) { return; }
  await tab.do("Page.setBypassCSP", { enabled: true });
  await tab.run(axe);
  const found = await tab.run("axe.run(document, { resultTypes: ['violations'] }).then((r) => " +
    "r.violations.map((v) => [v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 160)]))");
  const grave = found.filter(([impact]) => impact === "serious" || impact === "critical");
  check(grave.length === 0, `axe-core, ${how}: ${JSON.stringify(grave)}`);
  console.log(`  axe-core, ${how}: ${found.length} findings, ${grave.length} of them grave ` +
    found.map(([impact, id, count]) => `${id} (${impact}, ${count})`).join(", "));
}

async function narrow(tab) {
  await tab.size(390, 844);
  const wide = await tab.run("document.documentElement.scrollWidth");
  check(wide <= 390, `at 390 pixels the page is ${wide} wide`);
  const bare = await tab.run(`[...document.querySelectorAll(".wide")].filter((box) =>
    box.scrollWidth > box.clientWidth && getComputedStyle(box).backgroundImage === "none").length`);
  check(bare === 0, `${bare} tables go on beyond their box and do not show it`);
}

// On A4 across: a table that is wider makes the whole page smaller, and a head that holds a control
// stands on the first page of its table only.
async function prints(tab) {
  await tab.media([], "print");
  await tab.size(1032, 720);
  const wide = await tab.run("document.documentElement.scrollWidth");
  check(wide <= 1032, `on paper of 1032 pixels the page is ${wide} wide`);
  const hidden = await tab.run(`[...document.querySelectorAll(".command code")]
    .filter((one) => one.getClientRects().length === 0).length`);
  check(hidden === 0, "on paper stands the command of what is set");
  const boxes = await tab.run(`[...document.querySelectorAll("thead button, details:not([open])")]
    .filter((one) => one.getClientRects().length > 0).length`);
  check(boxes === 0, `on paper ${boxes} controls have a box`);
  await tab.media([]);
}

for (const page of pages) {
  console.log(page);
  const tab = await Tab.open(page);
  const name = options.shots && join(options.shots,
    `${basename(/^http:/.test(page) ? new URL(page).pathname : dirname(page)) || "index"}-`);
  if (name) { mkdirSync(options.shots, { recursive: true }); }
  if (name) { await tab.shot(`${name}light.png`); }
  await works(tab);
  await simulates(tab);
  await quiet(tab, page);
  // The browser tells of an answer that is none, which this asks for.
  await edits(tab);
  await changes(tab);
  await accessible(tab, "light");
  await tab.media([{ name: "prefers-color-scheme", value: "dark" }]);
  if (name) { await tab.shot(`${name}dark.png`); }
  await accessible(tab, "dark");
  await narrow(tab);
  if (name) { await tab.shot(`${name}narrow.png`); }
  await prints(tab);
  if (name) {
    await tab.size(1280, 900);
    const { data } = await tab.do("Page.printToPDF", { printBackground: true });
    writeFileSync(`${name}print.pdf`, Buffer.from(data, "base64"));
  }
  await send("Target.closeTarget", { targetId: tab.targetId });
}
const ended = new Promise((done) => browser.on("exit", done));
await send("Browser.close").catch(() => {});
await ended;
rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
console.log(failures === 0 ? "all is well" : `${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
