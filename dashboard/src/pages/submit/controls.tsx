// Form fields with their labels and errors, and the form state that they share.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Json, JsonObject } from "../../api/types.ts";
import { pointerOf, type Path, type Schemas } from "./schema.ts";

export interface FormState {
  schemas: Schemas;
  document: JsonObject;
  change: (path: Path, value: Json | undefined) => void;
  /** Error messages by JSON pointer. */
  fieldErrors: ReadonlyMap<string, string>;
}

export const FormContext = createContext<FormState>({
  schemas: {},
  document: {},
  change: () => undefined,
  fieldErrors: new Map(),
});

interface Common {
  label: string;
  path: Path;
  value: Json | undefined;
  defaultValue: Json | undefined;
  onValue: (value: Json | undefined) => void;
}

/** A value edited as text; the text is replaced when the value changes from outside. */
export function TextField(props: Common & {
  read: (text: string) => Json | undefined;
  write: (value: Json) => string;
  hint?: string;
  isNumeric?: boolean;
}) {
  const { label, value, defaultValue, onValue, read, write } = props;
  const shown = value === undefined || value === null ? "" : write(value);
  const [text, setText] = useState(shown);
  useEffect(() => {
    if (JSON.stringify(read(text)) !== JSON.stringify(value ?? undefined)) setText(shown);
  }, [shown]);
  const { id, fieldError } = useFieldError(props.path);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        inputMode={props.isNumeric ? "decimal" : "text"}
        spellcheck={false}
        autocomplete="off"
        value={text}
        placeholder={defaultValue === undefined || defaultValue === null ? "" : write(defaultValue)}
        title={props.hint}
        aria-invalid={fieldError !== undefined}
        aria-describedby={fieldError && id}
        onInput={(event) => {
          setText(event.currentTarget.value);
          onValue(read(event.currentTarget.value));
        }}
      />
      <FieldError id={id}>{fieldError}</FieldError>
    </label>
  );
}

export function SelectField(props: Common & { options: readonly string[]; isRequired: boolean }) {
  const { label, value, defaultValue, onValue, options } = props;
  const { id, fieldError } = useFieldError(props.path);
  const chosen = typeof value === "string" ? value : "";
  const byDefault = typeof defaultValue === "string" ? `default: ${defaultValue}` : "default";
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={chosen}
        aria-invalid={fieldError !== undefined}
        aria-describedby={fieldError && id}
        onChange={(event) => onValue(event.currentTarget.value || undefined)}
      >
        {(!props.isRequired || chosen === "") && <option value="">{props.isRequired ? "select" : byDefault}</option>}
        {chosen !== "" && !options.includes(chosen) && <option value={chosen}>{chosen}</option>}
        {options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
      <FieldError id={id}>{fieldError}</FieldError>
    </label>
  );
}

export function CheckboxField({ label, value, defaultValue, onValue, path }: Common) {
  const { id, fieldError } = useFieldError(path);
  return (
    <label class="field check">
      <input
        type="checkbox"
        checked={Boolean(value ?? defaultValue)}
        aria-describedby={fieldError && id}
        onChange={(event) => onValue(event.currentTarget.checked === Boolean(defaultValue) ? undefined : event.currentTarget.checked)}
      />
      <span>{label}</span>
      <FieldError id={id}>{fieldError}</FieldError>
    </label>
  );
}

/** The error at the path or below it. */
function useFieldError(path: Path): { id: string; fieldError: string | undefined } {
  const { fieldErrors } = useContext(FormContext);
  const pointer = pointerOf(path);
  const inside = [...fieldErrors].find(([one]) => one.startsWith(`${pointer}/`));
  return { id: `mistake${pointer.replaceAll("/", "-")}`, fieldError: fieldErrors.get(pointer) ?? inside?.[1] };
}

function FieldError({ id, children }: { id: string; children: ComponentChildren }) {
  return children ? <span id={id} class="problem">{children}</span> : null;
}
