// What the pages do besides their players: the theme, covered outputs, verdicts, scrolling by key.

const root = document.documentElement;
const button = document.querySelector("button.theme");
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = root.style.colorScheme;
  return chosen ? chosen === "dark" : systemIsDark.matches;
}

function choose(theme) {
  root.style.colorScheme = theme;
  document.body.dataset.jpThemeLight = String(theme === "light"); // what players go by
  button.setAttribute("aria-pressed", String(isDark()));
  try {
    localStorage.setItem("secondpass-theme", theme);
  } catch {
    // Not kept for the next page.
  }
}

if (button) {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => choose(isDark() ? "light" : "dark"));
  systemIsDark.addEventListener("change", () => button.setAttribute("aria-pressed", String(isDark())));
}

// An answer uncovers what it was about, and the check below says how it stands.
document.addEventListener("secondpass-answer", (event) => {
  const name = event.target.id;
  const of = (attribute) => document.querySelectorAll(`[${attribute}="${CSS.escape(name)}"]`);
  if (!event.detail) return;
  for (const covered of of("data-waits-for")) covered.open = true;
  for (const verdict of of("data-verdict-of")) {
    verdict.textContent = event.detail;
    verdict.classList.add("given");
  }
});

// Paper has no buttons: everything is uncovered on it.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});

// What scrolls sideways can be reached by keyboard; what does not is no stop on the way.
const watch = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const one of document.querySelectorAll("main pre, .scrolls")) watch.observe(one);

// The list of contents says which part is being read.
const links = new Map([...document.querySelectorAll(".contents a")].map((a) => [decodeURIComponent(a.hash.slice(1)), a]));
const parts = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
function markPart() {
  const passed = parts.filter((part) => part.getBoundingClientRect().top < innerHeight / 3).at(-1);
  for (const [id, link] of links) {
    if (id === passed?.id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
if (parts.length) {
  addEventListener("scroll", markPart, { passive: true });
  markPart();
}
