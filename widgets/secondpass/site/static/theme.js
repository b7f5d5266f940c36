// Before anything is painted: the theme that was chosen on an earlier page.
try {
  const theme = localStorage.getItem("secondpass-theme");
  if (theme === "dark" || theme === "light") {
    document.documentElement.style.colorScheme = theme;
    document.body.dataset.jpThemeLight = String(theme === "light");
  }
} catch {
  // A browser that keeps nothing: the system's theme.
}
