// Runs before anything is painted, so that no page flashes in the wrong colours.
{
  const kept = localStorage.getItem("aiosched.theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
