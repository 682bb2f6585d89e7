// Home: health, what runs and waits, past and coming runs, what needs attention.
import { html } from "../lib/html.js";
import { Page } from "../parts/basics.js";

export const Home = () => html`<${Page} title="Home" />`;
