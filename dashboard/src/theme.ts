// The colour theme: the system's, or the one selected in the header.
import { observable } from "./hooks.ts";

export type ThemePreference = "system" | "light" | "dark";
const KEY = "ampcore-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const themeChoice = observable<ThemePreference>(storedChoice());
/** The theme in use. */
export const theme = observable<"light" | "dark">(effectiveTheme());

export function setThemeChoice(next: ThemePreference): void {
  themeChoice.set(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice lasts until the page is reloaded.
  }
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = effectiveTheme();
  theme.set(effectiveTheme());
}

system.addEventListener("change", applyTheme);

function effectiveTheme(): "light" | "dark" {
  const chosen = themeChoice.get();
  return chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
}

function storedChoice(): ThemePreference {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}
