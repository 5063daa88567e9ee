// Form fields for any part of a spec, built from its JSON schema.
import { useContext } from "preact/hooks";
import type { Json, JsonObject } from "../../api/types.ts";
import { CheckboxField, SelectField, TextField, FormContext } from "./controls.tsx";
import { PackageEntries } from "./package-entries.tsx";
import { fieldKind, parseNumber, parseNumbers, resolveRef, getAt, withoutNull, fieldLabel, type Path, type Schema } from "./schema.ts";

interface Props {
  schema: Schema;
  path: Path;
  isRequired?: boolean;
}

/** The fields of one schema. */
export function Field({ schema: given, path, isRequired = false }: Props) {
  const { schemas, document, change } = useContext(FormContext);
  const schema = withoutNull(resolveRef(given, schemas));
  const label = fieldLabel(String(path.at(-1)));
  const value = getAt(document, path);
  const set = (next: Json | undefined) => change(path, next);
  const common = { label, path, value, onValue: set, defaultValue: schema.default };
  switch (fieldKind(schema, schemas)) {
    case "union": return <Union schema={schema} path={path} isRequired={isRequired} />;
    case "object": return <Group label={label}><Properties schema={schema} path={path} /></Group>;
    case "choice": return <SelectField {...common} options={schema.enum!} isRequired={isRequired} />;
    case "flag": return <CheckboxField {...common} />;
    case "number": return <TextField {...common} read={parseNumber} write={String} isNumeric />;
    case "numbers": return <TextField {...common} read={parseNumbers} write={formatList} hint="Comma-separated numbers" />;
    case "list": return <List schema={schema} path={path} label={label} />;
    case "map": return <Pairs {...common} schema={schema} />;
    case "text": return <TextField {...common} read={(text) => text || undefined} write={String} />;
  }
}

/** The fields of an object without its discriminator, which Union shows. */
export function Properties({ schema, path }: Props) {
  const { schemas } = useContext(FormContext);
  const entries = Object.entries(schema.properties ?? {}).filter(([, one]) => resolveRef(one, schemas).const === undefined);
  if (entries.length === 0) return null;
  return (
    <div class="fields">
      {entries.map(([name, one]) => (
        <Field key={name} schema={one} path={[...path, name]} isRequired={schema.required?.includes(name) ?? false} />
      ))}
    </div>
  );
}

/** A choice between kinds, and the fields of the selected kind. */
export function Union({ schema, path, isRequired = false }: Props) {
  const { schemas, document, change } = useContext(FormContext);
  const { propertyName, mapping } = schema.discriminator!;
  const value = getAt(document, path);
  const given = getAt(value, [propertyName]);
  const defaultValue = getAt(schema.default, [propertyName]);
  // A part that names no kind has the default kind.
  const kind = given ?? (value === undefined ? undefined : defaultValue);
  const variant = typeof kind === "string" && mapping[kind] ? resolveRef({ $ref: mapping[kind] }, schemas) : null;
  const name = String(path.at(-1));
  return (
    <div class="stack wide">
      <SelectField
        label={`${fieldLabel(name)} ${propertyName}`}
        path={[...path, propertyName]}
        value={kind}
        defaultValue={defaultValue}
        options={Object.keys(mapping)}
        isRequired={isRequired}
        onValue={(next) => change(path, next === undefined ? undefined : keepCommonFields(next, propertyName, value, mapping, schemas))}
      />
      {variant?.description && <p class="muted help">{variant.description.split("\n")[0]!.replaceAll("`", "")}</p>}
      {kind === "package" && <PackageEntries path={path} value={value} onValue={(next) => change(path, next)} />}
      {variant && <Properties schema={variant} path={path} />}
    </div>
  );
}

/** A value of another kind that keeps the fields which both kinds have. */
function keepCommonFields(kind: Json, name: string, before: Json | undefined, mapping: Record<string, string>, schemas: Record<string, Schema>): JsonObject {
  const known = resolveRef({ $ref: mapping[String(kind)] ?? "" }, schemas).properties ?? {};
  const old = before && typeof before === "object" && !Array.isArray(before) ? before : {};
  const kept = Object.entries(old).filter(([field]) => field in known && field !== name);
  return { [name]: kind, ...Object.fromEntries(kept) };
}

function List({ schema, path, label }: Props & { label: string }) {
  const { document, change, schemas } = useContext(FormContext);
  const value = getAt(document, path);
  const items = Array.isArray(value) ? value : [];
  const item = resolveRef(schema.items ?? {}, schemas);
  if (item.type === "object" && !item.properties) {
    return <Group label={label}><p class="muted">{items.length} entries. Edit them in the YAML.</p></Group>;
  }
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

/** A map of strings as text; other maps can only be edited as YAML. */
function Pairs(props: { label: string; path: Path; value: Json | undefined; onValue: (value: Json | undefined) => void; schema: Schema }) {
  const values = props.schema.additionalProperties;
  if (typeof values !== "object" || values.type !== "string") return null;
  return <TextField {...props} defaultValue={undefined} read={parsePairs} write={formatPairs} hint="Comma-separated key=value pairs" />;
}

function Group({ label, children }: { label: string; children: preact.ComponentChildren }) {
  return <fieldset class="nested wide"><legend>{label}</legend>{children}</fieldset>;
}

function formatList(value: Json): string {
  return Array.isArray(value) ? value.join(", ") : String(value);
}

function formatPairs(value: Json): string {
  return Object.entries(value as JsonObject).map(([key, one]) => `${key}=${String(one)}`).join(", ");
}

function parsePairs(text: string): Json | undefined {
  const pairs = text.split(",").map((pair) => pair.trim()).filter((pair) => pair !== "");
  const split = pairs.map((pair) => pair.split(/=(.*)/s).slice(0, 2).map((part) => part.trim()));
  return pairs.length === 0 ? undefined : Object.fromEntries(split.map(([key, one]) => [key ?? "", one ?? ""]));
}
