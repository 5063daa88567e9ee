import { render } from "preact";
import { App } from "./app.tsx";
import { apply } from "./theme.ts";

apply();
render(<App />, document.getElementById("app")!);
