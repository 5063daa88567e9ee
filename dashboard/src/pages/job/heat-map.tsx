// A heat map of exponents: a row for each layer, and lines where the number format ends.
import { useEffect, useRef, useState } from "preact/hooks";
import { cellWidth, opacity, ticks, type HeatMap } from "../../display/exponents.ts";
import { percent, power } from "../../display/format.ts";

const CELL_HEIGHT = 18;
const LABELS = 190;
const AXIS = 34;
const MAX_LABEL = 26;
/** Room for half of the last label of the axis. */
const RIGHT = 26;
const TICK_PX = 34;
/** Labels that are nearer to each other would overlap; the later ones are moved away. */
const LIMIT_PX = 56;
const DEFAULT_PX = 900;

export function HeatMapPlot({ map, label }: { map: HeatMap; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const available = useContentWidth(host);
  const columns = map.last - map.first + 1;
  const cell = cellWidth(columns, available - LABELS - RIGHT);
  const [width, height] = [LABELS + columns * cell, map.rows.length * CELL_HEIGHT];
  const x = (exponent: number) => LABELS + (exponent - map.first) * cell;
  const { smallest, normal, largest } = map.window;
  const lines = ([[smallest, "smallest"], [normal, "normal"], [largest + 1, "largest"]] as const)
    .filter(([at]) => at >= map.first && at <= map.last + 1);
  return (
    <div class="scroll heat-map" tabIndex={0} role="region" aria-label="Heat map" ref={host}>
      <svg width={width + RIGHT} height={height + AXIS} role="img" aria-label={label}>
        {map.rows.map((row, index) => (
          <g key={row.layer}>
            <text x={LABELS - 8} y={index * CELL_HEIGHT + 13} class="layer">
              {shorten(row.layer)}
              <title>{row.layer}: {percent(row.zeros)} are zeros</title>
            </text>
            {row.cells.map((one) => (
              <rect
                key={one.exponent}
                class={one.fit}
                x={x(one.exponent)}
                y={index * CELL_HEIGHT + 1}
                width={cell - (cell > 4 ? 1 : 0)}
                height={CELL_HEIGHT - 2}
                fill-opacity={opacity(one.share)}
              >
                <title>{row.layer}: {percent(one.share)} from {power(one.exponent)} to {power(one.exponent + 1)}</title>
              </rect>
            ))}
          </g>
        ))}
        {lines.map(([at, name], index) => {
          // "normal" lies next to "smallest" where cells are narrow.
          const before = lines[index - 1];
          const shift = before ? Math.max(0, LIMIT_PX - (x(at) - x(before[0]))) : 0;
          return (
            <g key={name} class="limit">
              <line x1={x(at)} x2={x(at)} y1={0} y2={height} />
              <text x={x(at) + shift} y={height + 30}>{name}</text>
            </g>
          );
        })}
        {ticks(map.first, map.last, Math.max(1, Math.floor((columns * cell) / TICK_PX))).map((exponent) => (
          <text key={exponent} class="tick" x={x(exponent)} y={height + 14}>{power(exponent)}</text>
        ))}
      </svg>
    </div>
  );
}

/** The width inside the padding of an element, as the window changes. */
function useContentWidth(host: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(DEFAULT_PX);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)));
    watcher.observe(host.current!);
    return () => watcher.disconnect();
  }, []);
  return width;
}

function shorten(layer: string): string {
  return layer.length <= MAX_LABEL ? layer : `…${layer.slice(1 - MAX_LABEL)}`;
}
