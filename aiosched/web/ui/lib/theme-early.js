// Runs before the first paint, to avoid a flash in the wrong theme.
{
  const saved = localStorage.getItem("aiosched.theme");
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
}
