// The fields that a person types into, each with its label, and what is wrong with it.
import { useContext, useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Json } from "../../api/types.ts";
import { FormContext } from "./context.ts";
import { pointerOf, type Path } from "./schema.ts";

interface Common {
  label: string;
  path: Path;
  value: Json | undefined;
  fallback: Json | undefined;
  onValue: (value: Json | undefined) => void;
}

/** A text that stands for a value; it is written anew where the value came from elsewhere. */
export function Typed(props: Common & {
  read: (text: string) => Json | undefined;
  write: (value: Json) => string;
  hint?: string;
  isNumeric?: boolean;
}) {
  const { label, value, fallback, onValue, read, write } = props;
  const shown = value === undefined || value === null ? "" : write(value);
  const [text, setText] = useState(shown);
  useEffect(() => {
    if (JSON.stringify(read(text)) !== JSON.stringify(value ?? undefined)) setText(shown);
  }, [shown]);
  const { id, mistake } = useMistake(props.path);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        inputMode={props.isNumeric ? "decimal" : "text"}
        spellcheck={false}
        autocomplete="off"
        value={text}
        placeholder={fallback === undefined || fallback === null ? "" : write(fallback)}
        title={props.hint}
        aria-invalid={mistake !== undefined}
        aria-describedby={mistake && id}
        onInput={(event) => {
          setText(event.currentTarget.value);
          onValue(read(event.currentTarget.value));
        }}
      />
      <Mistake id={id}>{mistake}</Mistake>
    </label>
  );
}

export function Choice(props: Common & { options: readonly string[]; isRequired: boolean }) {
  const { label, value, fallback, onValue, options } = props;
  const { id, mistake } = useMistake(props.path);
  const chosen = typeof value === "string" ? value : "";
  const byDefault = typeof fallback === "string" ? `default: ${fallback}` : "default";
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={chosen}
        aria-invalid={mistake !== undefined}
        aria-describedby={mistake && id}
        onChange={(event) => onValue(event.currentTarget.value || undefined)}
      >
        {(!props.isRequired || chosen === "") && <option value="">{props.isRequired ? "choose" : byDefault}</option>}
        {chosen !== "" && !options.includes(chosen) && <option value={chosen}>{chosen}</option>}
        {options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
      <Mistake id={id}>{mistake}</Mistake>
    </label>
  );
}

export function Flag({ label, value, fallback, onValue, path }: Common) {
  const { id, mistake } = useMistake(path);
  return (
    <label class="field check">
      <input
        type="checkbox"
        checked={Boolean(value ?? fallback)}
        aria-describedby={mistake && id}
        onChange={(event) => onValue(event.currentTarget.checked === Boolean(fallback) ? undefined : event.currentTarget.checked)}
      />
      <span>{label}</span>
      <Mistake id={id}>{mistake}</Mistake>
    </label>
  );
}

/** What is wrong at the path; for a list also with what is in it. */
function useMistake(path: Path): { id: string; mistake: string | undefined } {
  const { mistakes } = useContext(FormContext);
  const pointer = pointerOf(path);
  const inside = [...mistakes].find(([one]) => one.startsWith(`${pointer}/`));
  return { id: `mistake${pointer.replaceAll("/", "-")}`, mistake: mistakes.get(pointer) ?? inside?.[1] };
}

function Mistake({ id, children }: { id: string; children: ComponentChildren }) {
  return children ? <span id={id} class="problem">{children}</span> : null;
}
