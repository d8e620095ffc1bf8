// Sorting and filtering. The page is complete without this script: it only adds controls.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// The text of a cell for sorting: what data-value says, else what is shown.
const valueOf = (row, column) => {
  const cell = row.cells[column];
  return cell === undefined ? "" : cell.dataset.value ?? cell.textContent.trim();
};

// Empty values come last in both directions.
const compareValues = (kind, sign) => (one, other) => {
  if (one === "" || other === "") return (one === "") - (other === "");
  return sign * (kind === "number" ? Number(one) - Number(other) : one.localeCompare(other, undefined, { numeric: true }));
};

const makeSortable = (table) => {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  for (const head of heads.filter((one) => one.dataset.sort)) {
    const button = make("button", { type: "button" }, ...head.childNodes);
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    const directions = head.dataset.sort === "number" ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
    button.addEventListener("click", () => {
      const next = directions[(directions.indexOf(head.getAttribute("aria-sort")) + 1) % directions.length];
      for (const one of heads) if (one.hasAttribute("aria-sort")) one.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", next);
      const rows = [...original];
      if (next !== "none") {
        const column = heads.indexOf(head);
        const compare = compareValues(head.dataset.sort, next === "ascending" ? 1 : -1);
        rows.sort((one, other) => compare(valueOf(one, column), valueOf(other, column)));
      }
      body.append(...rows);
    });
  }
};

const controlsBefore = (node) => {
  const controls = make("div", { class: "controls" });
  node.before(controls);
  return controls;
};

const labelled = (text, field) => make("label", {}, text, field);

// Show the nodes that a function accepts, and say how many there are.
const showOnly = (nodes, accepts, output, noun) => {
  let count = 0;
  for (const node of nodes) {
    node.hidden = !accepts(node);
    count += !node.hidden;
  }
  output.textContent = `${count} of ${nodes.length} ${noun}`;
};

const makeFilterable = (table, controls) => {
  const noun = table.dataset.filter;
  const rows = [...table.tBodies[0].rows];
  const field = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const output = make("output", { "aria-live": "polite" });
  controls.append(labelled(`Filter ${noun}`, field), output);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(/\s+/);
    showOnly(rows, (row) => wanted.every((word) => row.textContent.toLowerCase().includes(word)), output, noun);
  });
};

const makeRangesOptional = (table, controls) => {
  const box = make("input", { type: "checkbox" });
  const update = () => table.classList.toggle("without-ranges", !box.checked);
  box.checked = !table.classList.contains("many");
  box.addEventListener("change", update);
  update();
  controls.append(make("label", { class: "check" }, box, "show intervals"));
};

const optionsOf = (nodes, name, all) => {
  const select = make("select", {}, make("option", { value: "" }, all));
  for (const value of new Set(nodes.map((node) => node.dataset[name]))) select.append(make("option", { value }, value));
  return select;
};

const makePromptsFilterable = (list) => {
  const items = [...list.children];
  const controls = controlsBefore(list);
  const output = make("output", { "aria-live": "polite" });
  const selects = [
    ["model", "Model", "all models"],
    ["task", "Task", "all tasks"],
    ["change", "Change", "better and worse"],
    ["verdicts", "Verdicts", "all verdicts"],
  ].filter(([name]) => name in items[0].dataset).map(([name, label, all]) => [name, label, optionsOf(items, name, all)]);
  const search = make("input", { type: "search", autocomplete: "off" });
  const update = () => {
    const wanted = search.value.toLowerCase();
    showOnly(
      items,
      (item) => selects.every(([name, , select]) => !select.value || item.dataset[name] === select.value)
        && (!wanted || item.textContent.toLowerCase().includes(wanted)),
      output,
      "prompts",
    );
  };
  for (const [, label, select] of selects) {
    select.addEventListener("change", update);
    if (select.options.length > 2) controls.append(labelled(label, select));
  }
  search.addEventListener("input", update);
  controls.append(labelled("Search texts", search));
  if (list.querySelector("details")) {
    const button = make("button", { type: "button" }, "Open all");
    button.addEventListener("click", () => {
      const open = button.textContent === "Open all";
      for (const item of items) for (const one of item.getElementsByTagName("details")) one.open = open && !item.hidden;
      button.textContent = open ? "Close all" : "Open all";
    });
    controls.append(button);
  }
  controls.append(output);
};

for (const table of document.querySelectorAll("table")) {
  makeSortable(table);
  const isMatrix = table.classList.contains("matrix");
  if (!isMatrix && !table.dataset.filter) continue;
  const controls = controlsBefore(table.closest(".scroll"));
  if (table.dataset.filter) makeFilterable(table, controls);
  if (isMatrix) makeRangesOptional(table, controls);
}
const prompts = document.getElementById("prompts-list");
if (prompts) makePromptsFilterable(prompts);
