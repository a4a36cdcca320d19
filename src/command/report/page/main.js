// Puts the page together.

const { title, runs } = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("page");
main.replaceChildren(make("p", { class: "faint" }, title));
for (const run of runs) main.append(run.kind === "bench" ? benchSection(run) : heapSection(run));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
