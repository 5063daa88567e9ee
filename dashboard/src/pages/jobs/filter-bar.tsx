// The filters of the list. Their state is the address of the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { PartKindList } from "../../api/types.ts";
import { POLICIES, STATES } from "../../display/jobs.ts";
import { isMetric, metricTitle } from "../../display/metrics.ts";
import { dayText, RANGES } from "./dates.ts";
import { currentFilters, filterCount, filtersHref, withoutFilters, type Filters } from "./filters.ts";

const CATALOG_MS = 600_000;
const SORTS = [
  ["-created_at", "Newest"], ["created_at", "Oldest"], ["-updated_at", "Recently updated"],
  ["name", "Name"], ["-priority", "Highest priority"],
] as const;

/** `metrics` are the names of metrics that the list can be sorted by. */
export function FilterBar({ filters, metrics }: { filters: Filters; metrics: readonly string[] }) {
  const models = usePoll<PartKindList>("/catalog/models", CATALOG_MS).data?.items.map((item) => item.kind) ?? [];
  // Not the filters of this render: another one may have changed while a text was typed.
  const change = (changes: Partial<Filters>) => go(filtersHref(currentFilters(), changes), true);
  const [isUnfolded, unfold] = useState(false);
  const count = filterCount({ ...filters, q: "" });
  return (
    <form class={`filters job-filters ${isUnfolded ? "unfolded" : ""}`} role="search" aria-label="Filter the jobs" onSubmit={(event) => event.preventDefault()}>
      <DebouncedInput label="Search" placeholder="Name or ID prefix" value={filters.q} onValue={(q) => change({ q })} />
      <button type="button" class="button narrow-only" aria-expanded={isUnfolded} onClick={() => unfold(!isUnfolded)}>
        Filters{count > 0 && ` (${count})`}
      </button>
      <CreatedFilter filters={filters} onChange={change} />
      <SelectFilter label="Policy" value={filters.policy} options={POLICIES} onValue={(policy) => change({ policy })} />
      <SelectFilter label="Model" value={filters.model} options={models} onValue={(model) => change({ model })} />
      <EnterInput label="Label" placeholder="key=value ⏎" onValue={(label) => change({ labels: [...new Set([...filters.labels, label])] })} />
      <EnterInput label="Metric" placeholder="val_loss<0.1 ⏎" onValue={(metric) => change({ metrics: [...new Set([...filters.metrics, metric])] })} />
      <label class="field inline">
        <span>Sort</span>
        <select value={filters.sort} onChange={(event) => change({ sort: event.currentTarget.value })}>
          {[...SORTS, ...metricSorts(metrics, filters.sort)].map(([value, words]) => <option key={value} value={value}>{words}</option>)}
        </select>
      </label>
      <fieldset class="chips">
        <legend class="hidden">States</legend>
        {STATES.map((state) => (
          <label key={state} class="chip">
            <input
              type="checkbox"
              checked={filters.states.includes(state)}
              onChange={(event) => change({ states: toggled(filters.states, state, event.currentTarget.checked) })}
            />
            {state}
          </label>
        ))}
        <label class="chip" title="Jobs that explain a step of another job">
          <input
            type="checkbox"
            checked={filters.explanations}
            onChange={(event) => change({ explanations: event.currentTarget.checked })}
          />
          explanations
        </label>
        <label class="chip" title="A row for each job of a study, instead of one for the study">
          <input type="checkbox" checked={filters.allJobs} onChange={(event) => change({ allJobs: event.currentTarget.checked })} />
          jobs of studies
        </label>
        {filters.study && <Chip what="study" text={`study ${filters.study}`} onRemove={() => change({ study: "" })} />}
        {filters.labels.map((label) => (
          <Chip key={label} what="label" text={label} onRemove={() => change({ labels: filters.labels.filter((one) => one !== label) })} />
        ))}
        {filters.metrics.map((metric) => (
          <Chip key={metric} what="condition" text={metric} onRemove={() => change({ metrics: filters.metrics.filter((one) => one !== metric) })} />
        ))}
        {filterCount(filters) > 0 && <a class="chip" href={withoutFilters(filters)}>Clear filters</a>}
      </fieldset>
    </form>
  );
}

/** The orders by each metric, and by the current one. */
function metricSorts(metrics: readonly string[], current: string): [sort: string, words: string][] {
  const chosen = current.replace(/^-/, "");
  const names = new Set(isMetric(chosen) ? [...metrics, chosen] : metrics);
  return [...names].flatMap((name): [string, string][] => [
    [`-${name}`, `Highest ${metricTitle(name).toLowerCase()}`],
    [name, `Lowest ${metricTitle(name).toLowerCase()}`],
  ]);
}

const BETWEEN = "between";

/** The days on which the jobs were created: a range that ends today, or one between two days. */
function CreatedFilter({ filters, onChange }: { filters: Filters; onChange: (changes: Partial<Filters>) => void }) {
  const isBetween = filters.from !== "" || filters.to !== "";
  const isOther = filters.created !== "" && !RANGES.some(([range]) => range === filters.created);
  const choose = (value: string) => {
    const today = dayText(new Date());
    onChange(value === BETWEEN ? { created: "", from: today, to: today } : { created: value, from: "", to: "" });
  };
  return (
    <>
      <label class="field inline">
        <span>Created</span>
        <select value={isBetween ? BETWEEN : filters.created} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">any time</option>
          {RANGES.map(([range, text]) => <option key={range} value={range}>{text}</option>)}
          {isOther && <option value={filters.created}>{filters.created}</option>}
          <option value={BETWEEN}>Between…</option>
        </select>
      </label>
      {isBetween && <DayInput label="First day" value={filters.from} max={filters.to} onValue={(from) => onChange({ from })} />}
      {isBetween && <DayInput label="Last day" value={filters.to} min={filters.from} onValue={(to) => onChange({ to })} />}
    </>
  );
}

function DayInput(props: { label: string; value: string; min?: string; max?: string; onValue: (value: string) => void }) {
  return (
    <label class="field inline">
      <span>{props.label}</span>
      <input type="date" value={props.value} min={props.min} max={props.max} onChange={(event) => props.onValue(event.currentTarget.value)} />
    </label>
  );
}

function Chip({ what, text, onRemove }: { what: string; text: string; onRemove: () => void }) {
  return <button type="button" class="chip on" aria-label={`Remove ${what} ${text}`} onClick={onRemove}>{text} ×</button>;
}

function toggled(all: readonly string[], one: string, on: boolean): readonly string[] {
  return on ? [...all, one] : all.filter((state) => state !== one);
}

function SelectFilter(props: { label: string; value: string; options: readonly string[]; onValue: (value: string) => void }) {
  const options = props.value && !props.options.includes(props.value) ? [props.value, ...props.options] : props.options;
  return (
    <label class="field inline">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onValue(event.currentTarget.value)}>
        <option value="">any</option>
        {options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    </label>
  );
}

/** A text input that reports its value when typing pauses. */
function DebouncedInput(props: { label: string; placeholder: string; value: string; onValue: (value: string) => void }) {
  const [text, setText] = useState(props.value);
  const reported = useRef(props.value);
  useEffect(() => {
    if (props.value === reported.current) return; // the text may be longer by now
    reported.current = props.value;
    setText(props.value);
  }, [props.value]);
  useEffect(() => {
    if (text === reported.current) return;
    const timer = setTimeout(() => {
      reported.current = text;
      props.onValue(text);
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="field inline grow">
      <span>{props.label}</span>
      <input type="search" maxLength={200} placeholder={props.placeholder} value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

/** A text input that reports its value on Enter. */
function EnterInput({ label, placeholder, onValue }: { label: string; placeholder: string; onValue: (value: string) => void }) {
  const add = (event: KeyboardEvent & { currentTarget: HTMLInputElement }) => {
    const input = event.currentTarget;
    if (event.key !== "Enter" || !input.value.trim()) return;
    event.preventDefault();
    onValue(input.value.trim());
    input.value = "";
  };
  return (
    <label class="field inline">
      <span>{label}</span>
      <input type="text" maxLength={321} placeholder={placeholder} onKeyDown={add} />
    </label>
  );
}
