// A form for any part of a job spec, made from its JSON schema.
import { useContext } from "preact/hooks";
import type { Json, JsonObject } from "../../api/types.ts";
import { Flag, Choice, Typed } from "./controls.tsx";
import { FormContext } from "./context.ts";
import { formOf, numberFrom, numbersFrom, resolved, valueAt, withoutNull, wordsOf, type Path, type Schema } from "./schema.ts";

interface Props {
  schema: Schema;
  path: Path;
  isRequired?: boolean;
}

/** The field, or the fields, of one schema. */
export function Field({ schema: given, path, isRequired = false }: Props) {
  const { schemas, document, change } = useContext(FormContext);
  const schema = withoutNull(resolved(given, schemas));
  const label = wordsOf(String(path.at(-1)));
  const value = valueAt(document, path);
  const set = (next: Json | undefined) => change(path, next);
  const common = { label, path, value, onValue: set, fallback: schema.default };
  switch (formOf(schema, schemas)) {
    case "union": return <Union schema={schema} path={path} isRequired={isRequired} />;
    case "object": return <Group label={label}><Properties schema={schema} path={path} /></Group>;
    case "choice": return <Choice {...common} options={schema.enum!} isRequired={isRequired} />;
    case "flag": return <Flag {...common} />;
    case "number": return <Typed {...common} read={numberFrom} write={String} isNumeric />;
    case "numbers": return <Typed {...common} read={numbersFrom} write={listed} hint="Numbers with commas between" />;
    case "list": return <List schema={schema} path={path} label={label} />;
    case "map": return <Pairs {...common} schema={schema} />;
    case "text": return <Typed {...common} read={(text) => text || undefined} write={String} />;
  }
}

/** Every field of an object; a discriminator is chosen elsewhere. */
export function Properties({ schema, path }: Props) {
  const { schemas } = useContext(FormContext);
  const entries = Object.entries(schema.properties ?? {}).filter(([, one]) => resolved(one, schemas).const === undefined);
  if (entries.length === 0) return null;
  return (
    <div class="fields">
      {entries.map(([name, one]) => (
        <Field key={name} schema={one} path={[...path, name]} isRequired={schema.required?.includes(name) ?? false} />
      ))}
    </div>
  );
}

/** One of several kinds, and the fields of the one that is chosen. */
export function Union({ schema, path, isRequired = false }: Props) {
  const { schemas, document, change } = useContext(FormContext);
  const { propertyName, mapping } = schema.discriminator!;
  const value = valueAt(document, path);
  const told = valueAt(value, [propertyName]);
  const fallback = valueAt(schema.default, [propertyName]);
  // A part without a kind is one of the default kind.
  const kind = told ?? (value === undefined ? undefined : fallback);
  const variant = typeof kind === "string" && mapping[kind] ? resolved({ $ref: mapping[kind] }, schemas) : null;
  const name = String(path.at(-1));
  return (
    <div class="stack wide">
      <Choice
        label={`${wordsOf(name)} ${propertyName}`}
        path={[...path, propertyName]}
        value={kind}
        fallback={fallback}
        options={Object.keys(mapping)}
        isRequired={isRequired}
        onValue={(next) => change(path, next === undefined ? undefined : keptFor(next, propertyName, value, mapping, schemas))}
      />
      {variant?.description && <p class="muted help">{variant.description.split("\n")[0]!.replaceAll("`", "")}</p>}
      {variant && <Properties schema={variant} path={path} />}
    </div>
  );
}

/** Another kind, with those fields of the one before that it has, too. */
function keptFor(kind: Json, name: string, before: Json | undefined, mapping: Record<string, string>, schemas: Record<string, Schema>): JsonObject {
  const known = resolved({ $ref: mapping[String(kind)] ?? "" }, schemas).properties ?? {};
  const old = before && typeof before === "object" && !Array.isArray(before) ? before : {};
  const kept = Object.entries(old).filter(([field]) => field in known && field !== name);
  return { [name]: kind, ...Object.fromEntries(kept) };
}

function List({ schema, path, label }: Props & { label: string }) {
  const { document, change, schemas } = useContext(FormContext);
  const value = valueAt(document, path);
  const items = Array.isArray(value) ? value : [];
  const item = resolved(schema.items ?? {}, schemas);
  return (
    <Group label={label}>
      {items.map((_, index) => (
        <div key={index} class="row">
          {item.properties ? <Properties schema={item} path={[...path, index]} /> : <Field schema={item} path={[...path, index]} />}
          <button type="button" class="button small" aria-label={`Remove ${label} ${index + 1}`} onClick={() => change([...path, index], undefined)}>Remove</button>
        </div>
      ))}
      <div><button type="button" class="button small" onClick={() => change(path, [...items, item.properties ? {} : ""])}>Add to {label.toLowerCase()}</button></div>
    </Group>
  );
}

/** Names and texts; other maps are for the YAML. */
function Pairs(props: { label: string; path: Path; value: Json | undefined; onValue: (value: Json | undefined) => void; schema: Schema }) {
  const values = props.schema.additionalProperties;
  if (typeof values !== "object" || values.type !== "string") return null;
  return <Typed {...props} fallback={undefined} read={pairsFrom} write={pairsOf} hint="key=value, with commas between" />;
}

function Group({ label, children }: { label: string; children: preact.ComponentChildren }) {
  return <fieldset class="nested wide"><legend>{label}</legend>{children}</fieldset>;
}

function listed(value: Json): string {
  return Array.isArray(value) ? value.join(", ") : String(value);
}

function pairsOf(value: Json): string {
  return Object.entries(value as JsonObject).map(([key, one]) => `${key}=${String(one)}`).join(", ");
}

function pairsFrom(text: string): Json | undefined {
  const pairs = text.split(",").map((pair) => pair.trim()).filter((pair) => pair !== "");
  const split = pairs.map((pair) => pair.split(/=(.*)/s).slice(0, 2).map((part) => part.trim()));
  return pairs.length === 0 ? undefined : Object.fromEntries(split.map(([key, one]) => [key ?? "", one ?? ""]));
}
