// Runs before the first paint, to avoid a flash in the wrong theme or density.
{
  const saved = localStorage.getItem("aiosched.theme");
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
  document.documentElement.dataset.density = localStorage.getItem("aiosched.density") ?? "comfortable";
}
