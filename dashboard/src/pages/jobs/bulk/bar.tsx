// What can be done with the selected jobs. Each change is confirmed in a dialog that names their number.
import { useRef, useState } from "preact/hooks";
import { ConfirmButton } from "../../../components/buttons.tsx";
import { notify, runAndNotify } from "../../../notifications.ts";
import { routeHref } from "../../../router.ts";
import { useCanEditJobs } from "../../../session.ts";
import { changeJobs, changeText, parseLabels, type BulkAction, type LabelChanges } from "./changes.ts";
import { changedBy, jobCount, whyNotCompared, type Selection } from "../selection.ts";

interface Props {
  selection: Selection;
  onClear: () => void;
  /** Called after a change, with the ids of jobs that are deleted. */
  onDone: (deletedIds: readonly string[]) => void;
}

export function BulkBar({ selection, onClear, onDone }: Props) {
  const canEdit = useCanEditJobs();
  const change = async (action: BulkAction, labels?: LabelChanges) => {
    const ids = changedBy(action, selection);
    let changed: readonly string[] = [];
    const work = async () => {
      changed = await changeJobs(action, ids, labels);
    };
    if (await runAndNotify("", work)) notify("done", changeText(action, changed.length, ids.length));
    onDone(action === "delete" ? changed : []);
  };
  return (
    <div class="bulk-bar" role="region" aria-label="Selected jobs">
      <span role="status"><strong>{jobCount(selection.size)}</strong> selected</span>
      <CompareLink selection={selection} />
      {canEdit && <LabelButton selection={selection} onChange={(labels) => void change("label", labels)} />}
      {canEdit && <ChangeButton action="cancel" selection={selection} onConfirm={() => void change("cancel")} />}
      {canEdit && <ChangeButton action="delete" selection={selection} onConfirm={() => void change("delete")} />}
      <button type="button" class="button quiet" onClick={onClear}>Clear selection</button>
    </div>
  );
}

function CompareLink({ selection }: { selection: Selection }) {
  const reason = whyNotCompared(selection);
  if (reason !== null) return <button type="button" class="button" disabled title={reason}>Compare</button>;
  return <a class="button" href={routeHref(["compare"], { jobs: [...selection.keys()].join(",") })}>Compare {jobCount(selection.size)}</a>;
}

const CHANGES = {
  cancel: {
    verb: "Cancel", unchanged: "have ended already and stay as they are",
    text: "Waiting jobs are cancelled at once, running ones once their processes have ended.",
  },
  delete: {
    verb: "Delete", unchanged: "have not ended and stay",
    text: "With their steps, logs and files. The trash has them for a time, and can restore them.",
  },
} as const;

function ChangeButton({ action, selection, onConfirm }: { action: "cancel" | "delete"; selection: Selection; onConfirm: () => void }) {
  const { verb, text, unchanged } = CHANGES[action];
  const count = changedBy(action, selection).length;
  const unchangedCount = selection.size - count;
  return (
    <ConfirmButton
      label={verb}
      ariaLabel={`${verb} the selected jobs`}
      question={`${verb} ${jobCount(count)}?`}
      confirmLabel={`${verb} ${jobCount(count)}`}
      closeLabel="Keep them"
      danger
      disabled={count === 0}
      onConfirm={onConfirm}
    >
      {text}
      {unchangedCount > 0 && ` ${unchangedCount} of the selected jobs ${unchanged}.`}
    </ConfirmButton>
  );
}

function LabelButton({ selection, onChange }: { selection: Selection; onChange: (labels: LabelChanges) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [removed, setRemoved] = useState<readonly string[]>([]);
  const keys = [...new Set([...selection.values()].flatMap(({ labels }) => Object.keys(labels)))].sort();
  const added = parseLabels(text);
  const problem = typeof added === "string" ? added : null;
  const isEmpty = typeof added !== "string" && Object.keys(added).length === 0 && removed.length === 0;
  const open = () => {
    setText("");
    setRemoved([]);
    dialog.current?.showModal();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (typeof added === "string" || isEmpty) return;
    dialog.current?.close();
    onChange({ ...Object.fromEntries(removed.map((key) => [key, null])), ...added });
  };
  return (
    <>
      <button type="button" class="button" aria-label="Label the selected jobs" onClick={open}>Label</button>
      <dialog ref={dialog} aria-label={`Label ${jobCount(selection.size)}`} class="dialog">
        <form onSubmit={submit}>
          <h2>Label {jobCount(selection.size)}</h2>
          <label class="field">
            <span>Labels to set</span>
            <input type="text" placeholder="team=vision, draft" value={text} aria-invalid={problem !== null} onInput={(event) => setText(event.currentTarget.value)} />
            {problem && <span class="problem" role="alert">{problem}</span>}
          </label>
          {keys.length > 0 && (
            <fieldset class="chips">
              <legend class="muted">Labels to remove</legend>
              {keys.map((key) => (
                <label key={key} class="chip">
                  <input
                    type="checkbox"
                    checked={removed.includes(key)}
                    onChange={(event) => setRemoved(event.currentTarget.checked ? [...removed, key] : removed.filter((name) => name !== key))}
                  />
                  {key}
                </label>
              ))}
            </fieldset>
          )}
          <div class="row end">
            <button type="button" class="button" onClick={() => dialog.current?.close()}>Cancel</button>
            <button type="submit" class="button primary" disabled={problem !== null || isEmpty}>Label {jobCount(selection.size)}</button>
          </div>
        </form>
      </dialog>
    </>
  );
}
