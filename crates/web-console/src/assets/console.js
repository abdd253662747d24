// Live progress, and buttons that copy. Pages can be read without it.

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.parentElement.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// A page that waits for something loads itself again.
if (document.querySelector("[data-reload]")) setTimeout(() => location.reload(), 2000);

// Fragments come from this console only, with all text escaped.
for (const section of document.querySelectorAll("[data-events]")) {
  let source = null;
  const open = () => {
    if (source) return;
    source = new EventSource(section.dataset.events);
    for (const part of section.querySelectorAll("[data-part]")) {
      source.addEventListener(part.dataset.part, (event) => { part.innerHTML = event.data; });
    }
    source.addEventListener("end", () => { source.close(); });
    section.dataset.connected = "true";
  };
  // A browser has six connections per server; pages in the background give theirs back.
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => { document.hidden ? close() : open(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });
  if (!document.hidden) open();
}
