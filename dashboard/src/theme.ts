// Light or dark: as the system has it, or as was chosen here.
import { cell } from "./cell.ts";

export type Choice = "system" | "light" | "dark";
const KEY = "ampcore-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const choice = cell<Choice>(kept());
/** What is shown now. */
export const theme = cell<"light" | "dark">(shown());

export function choose(next: Choice): void {
  choice.set(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // A browser that keeps nothing asks the system each time.
  }
  apply();
}

export function apply(): void {
  document.documentElement.dataset["theme"] = shown();
  theme.set(shown());
}

system.addEventListener("change", apply);

function shown(): "light" | "dark" {
  const chosen = choice.get();
  return chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
}

function kept(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}
