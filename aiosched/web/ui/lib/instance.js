// The name of this installation, such as PROD: the setting web.instance_name.

export const instanceName = document.documentElement.dataset.instance ?? "";

/** The title of the browser's tab. @param {string} page */
export const titled = (page) => [instanceName, page, "aiosched"].filter(Boolean).join(" · ");
