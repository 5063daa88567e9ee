// The menus of the list: its columns, and the saved views.
import { useState } from "preact/hooks";
import { Menu } from "../../components/menu.tsx";
import { useObservable } from "../../hooks.ts";
import { metricTitle } from "../../display/metrics.ts";
import { go } from "../../router.ts";
import { COLUMNS, DEFAULT_COLUMNS, LISTED_METRIC, moved, type Column } from "./columns.ts";
import { currentFilters, filtersHref, type Filters } from "./filters.ts";
import { deleteView, differsFromView, MAX_VIEW_NAME, rememberColumns, saveView, viewHref, views } from "./views.ts";

interface ColumnsProps {
  chosen: readonly string[];
  /** Those that the window has no room for. */
  hidden: readonly Column[];
  /** The metrics of the listed jobs. */
  metrics: readonly string[];
}

export function ColumnsMenu({ chosen, hidden, metrics }: ColumnsProps) {
  const set = (ids: readonly string[]) => {
    const isDefault = ids.join() === DEFAULT_COLUMNS.join();
    rememberColumns(isDefault ? [] : ids);
    go(filtersHref(currentFilters(), { columns: isDefault ? [] : ids }), true);
  };
  const others = [...COLUMNS.map(({ id }) => id), ...metrics].filter((id) => !chosen.includes(id));
  return (
    <Menu label={hidden.length > 0 ? `Columns (${hidden.length} hidden)` : "Columns"}>
      {hidden.length > 0 && (
        <p class="menu-note">No room in this window: {hidden.map(({ title }) => title).join(", ")}. Columns further up are shown first.</p>
      )}
      <ul class="plain" aria-label="Columns">
        {chosen.map((id) => (
          <li key={id} class="menu-row">
            <label class="check">
              <input type="checkbox" checked disabled={id === "name"} onChange={() => set(chosen.filter((other) => other !== id))} />
              {titleOf(id)}
            </label>
            <button type="button" class="button small quiet" aria-label={`Move ${titleOf(id)} up`} disabled={id === chosen[0]} onClick={() => set(moved(chosen, id, -1))}>↑</button>
            <button type="button" class="button small quiet" aria-label={`Move ${titleOf(id)} down`} disabled={id === chosen.at(-1)} onClick={() => set(moved(chosen, id, 1))}>↓</button>
          </li>
        ))}
        {others.map((id) => (
          <li key={id} class="menu-row">
            <label class="check"><input type="checkbox" checked={false} onChange={() => set([...chosen, id])} />{titleOf(id)}</label>
          </li>
        ))}
      </ul>
      <button type="button" class="button small" onClick={() => set(DEFAULT_COLUMNS)}>Default columns</button>
    </Menu>
  );
}

function titleOf(id: string): string {
  if (id === LISTED_METRIC) return "Metric of the order or filter";
  return COLUMNS.find((column) => column.id === id)?.title ?? metricTitle(id);
}

export function ViewsMenu({ filters }: { filters: Filters }) {
  const all = useObservable(views);
  const [name, setName] = useState(filters.view);
  const isChanged = differsFromView(filters, all);
  const exists = all.some((view) => view.name === name.trim());
  const save = (event: Event) => {
    event.preventDefault();
    if (name.trim()) go(saveView(name.trim(), currentFilters()), true);
  };
  return (
    <Menu label={filters.view ? `View: ${filters.view}${isChanged ? " (changed)" : ""}` : "Views"}>
      {all.length === 0 && <p class="menu-note">A view keeps the filters, the order and the columns, in this browser. Its link works in any.</p>}
      <ul class="plain" aria-label="Saved views">
        {all.map((view) => (
          <li key={view.name} class="menu-row">
            <a href={viewHref(view)} aria-current={view.name === filters.view ? "true" : undefined} onClick={() => setName(view.name)}>{view.name}</a>
            <button type="button" class="button small quiet" aria-label={`Delete the view ${view.name}`} onClick={() => deleteView(view.name)}>×</button>
          </li>
        ))}
      </ul>
      <form class="row" onSubmit={save}>
        <label class="field grow">
          <span>Name</span>
          <input type="text" required maxLength={MAX_VIEW_NAME} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" class="button">{exists ? "Replace view" : "Save view"}</button>
      </form>
    </Menu>
  );
}
