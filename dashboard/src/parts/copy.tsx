// A button that puts a text where it can be pasted from.
import { tell } from "../notices.ts";

export function Copy({ label, text }: { label: string; text: string }) {
  return <button type="button" class="button small" onClick={() => void copy(text)}>{label}</button>;
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text); // there only on HTTPS and on this machine
    tell("done", "Copied.");
  } catch {
    tell("failed", "The browser does not allow copying here: select the text instead.");
  }
}
