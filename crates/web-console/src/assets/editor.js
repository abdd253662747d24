// The editor: checks while typing, jumps to lines, takes files. Saving works without it.

const form = document.querySelector("form[data-check]");
if (form) {
  const text = form.querySelector("textarea");
  const name = form.querySelector("input[name=name]");
  const findings = document.getElementById("findings");
  const upload = document.getElementById("upload");
  let saved = text.value;
  let timer = null;
  let latest = 0;

  const check = async () => {
    const number = ++latest;
    const body = new URLSearchParams({ name: name.value, text: text.value });
    try {
      const response = await fetch(form.dataset.check, { method: "POST", body });
      const html = await response.text();
      // A slow response must not replace a newer one.
      if (response.ok && number === latest) findings.innerHTML = html;
    } catch {
      if (number === latest) findings.textContent = "The console did not respond; the text was not checked.";
    }
  };
  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, 300);
  });

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

  const take = async (file) => {
    if (!file) return;
    if (text.value.trim() !== saved.trim() && !confirm("Replace the text in the editor?")) return;
    text.value = await file.text();
    if (!name.value) name.value = file.name.replace(/[^A-Za-z0-9._-]/g, "-");
    check();
  };
  for (const hidden of form.querySelectorAll("[hidden]")) hidden.hidden = hidden.type === "hidden";
  upload.addEventListener("change", () => take(upload.files[0]));
  text.addEventListener("dragover", (event) => event.preventDefault());
  text.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });

  form.addEventListener("submit", () => { saved = text.value; });
  addEventListener("beforeunload", (event) => {
    if (text.value !== saved) event.preventDefault();
  });
}
