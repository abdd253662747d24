// The editor: checks while typing, shows the selection and its sizes, jumps to lines, takes files.
// Saving, adding and removing work without it.

// Writes a chosen or dropped file into a field.
const takeFiles = (chooser, field, take) => {
  chooser.addEventListener("change", () => take(chooser.files[0]));
  field.addEventListener("dragover", (event) => event.preventDefault());
  field.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
};

for (const chooser of document.querySelectorAll("input[type=file][data-into]")) {
  const field = document.getElementById(chooser.dataset.into);
  chooser.hidden = false;
  for (const label of chooser.labels) label.hidden = false;
  takeFiles(chooser, field, async (file) => { if (file) field.value = await file.text(); });
}

const form = document.querySelector("form[data-check]");
if (form) {
  const text = form.querySelector("textarea");
  const name = form.querySelector("input[name=name]");
  const findings = document.getElementById("findings");
  const selection = document.getElementById("selection");
  const image = document.getElementById("image");
  const upload = document.getElementById("upload");
  const unsaved = "unsaved" in form.dataset;
  let saved = text.value;
  let timer = null;
  let latest = 0;

  const later = (milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(check, milliseconds);
  };

  // Only what changed is replaced, so that a button keeps its focus.
  const replace = (place, part) => {
    if (part && place.innerHTML !== part.innerHTML) place.replaceChildren(...part.childNodes);
  };

  const check = async () => {
    const number = ++latest;
    const body = new URLSearchParams({ name: name.value, text: text.value });
    try {
      const response = await fetch(form.dataset.check, { method: "POST", body });
      const parts = document.createElement("template");
      parts.innerHTML = await response.text();
      // A slow response must not replace a newer one.
      if (!response.ok || number !== latest) return;
      replace(findings, parts.content.querySelector("[data-for=findings]"));
      replace(selection, parts.content.querySelector("[data-for=selection]"));
      watch();
    } catch {
      if (number === latest) findings.textContent = "The console did not respond; the text was not checked.";
    }
  };
  // Sizes arrive one after the other.
  const watch = () => { if (selection.querySelector("[data-pending]")) later(2000); };
  watch();
  text.addEventListener("input", () => later(300));

  findings.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line]");
    if (!link) return;
    event.preventDefault();
    const lines = text.value.split("\n");
    const line = Math.min(Number(link.dataset.line), lines.length);
    const start = lines.slice(0, line - 1).reduce((sum, words) => sum + words.length + 1, 0);
    text.focus();
    text.setSelectionRange(start, start + lines[line - 1].length);
    text.scrollTop = (line - 4) * (text.scrollHeight / lines.length);
  });

  // The first button of the form saves; here another one is meant.
  image.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    form.querySelector("button[value=image]").click();
  });

  for (const hidden of form.querySelectorAll("[hidden]")) hidden.hidden = hidden.type === "hidden";
  takeFiles(upload, text, async (file) => {
    if (!file) return;
    if (text.value.trim() !== saved.trim() && !confirm("Replace the text in the editor?")) return;
    text.value = await file.text();
    if (!name.value) name.value = file.name.replace(/[^A-Za-z0-9._-]/g, "-");
    check();
  });

  let submitted = false;
  form.addEventListener("submit", () => { submitted = true; });
  addEventListener("beforeunload", (event) => {
    if (!submitted && (unsaved || text.value !== saved)) event.preventDefault();
  });
}
