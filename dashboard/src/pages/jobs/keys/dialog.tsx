// The keys of the list, and the switch that turns them off.
import type { RefObject } from "preact";
import { useObservable } from "../../../hooks.ts";
import { areLettersOn, setLettersOn, SHORTCUTS } from "./shortcuts.ts";

export function ShortcutsDialog({ dialog }: { dialog: RefObject<HTMLDialogElement | null> }) {
  const isOn = useObservable(areLettersOn);
  return (
    <dialog ref={dialog} aria-label="Keyboard shortcuts" class="dialog">
      <h2>Keyboard shortcuts</h2>
      <table class="shortcuts">
        <tbody>
          {SHORTCUTS.map(([key, , text]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th><td>{text}</td></tr>)}
          <tr><th scope="row"><kbd>Shift</kbd> + click</th><td>Select all rows from the last selected one to this one</td></tr>
        </tbody>
      </table>
      <label class="check">
        <input type="checkbox" checked={isOn} onChange={(event) => setLettersOn(event.currentTarget.checked)} />
        Single characters are shortcuts
      </label>
      <div class="row end">
        <button type="button" class="button" onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
