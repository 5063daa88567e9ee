// A heat map of exponents: a row for each layer, and lines where the number format ends.
import { opacity, ticks, type HeatMap } from "../../display/exponents.ts";
import { percent, power } from "../../display/format.ts";

const CELL = { width: 16, height: 18 };
const LABELS = 190;
const AXIS = 34;
const MAX_LABEL = 26;

export function HeatMapPlot({ map, label }: { map: HeatMap; label: string }) {
  const columns = map.last - map.first + 1;
  const [width, height] = [LABELS + columns * CELL.width, map.rows.length * CELL.height];
  const x = (exponent: number) => LABELS + (exponent - map.first) * CELL.width;
  const { smallest, normal, largest } = map.window;
  const lines = [
    [smallest, "smallest"], [normal, "normal"], [largest + 1, "largest"],
  ] as const;
  return (
    <div class="scroll heat-map" tabIndex={0} role="region" aria-label="Heat map">
      <svg width={width + 60} height={height + AXIS} role="img" aria-label={label}>
        {map.rows.map((row, index) => (
          <g key={row.layer}>
            <text x={LABELS - 8} y={index * CELL.height + 13} class="layer">
              {shorten(row.layer)}
              <title>{row.layer}: {percent(row.zeros)} are zeros</title>
            </text>
            {row.cells.map((cell) => (
              <rect
                key={cell.exponent}
                class={cell.fit}
                x={x(cell.exponent)}
                y={index * CELL.height + 1}
                width={CELL.width - 1}
                height={CELL.height - 2}
                fill-opacity={opacity(cell.share)}
              >
                <title>{row.layer}: {percent(cell.share)} from {power(cell.exponent)} to {power(cell.exponent + 1)}</title>
              </rect>
            ))}
          </g>
        ))}
        {lines.filter(([at]) => at >= map.first && at <= map.last + 1).map(([at, name]) => (
          <g key={name} class="limit">
            <line x1={x(at)} x2={x(at)} y1={0} y2={height} />
            <text x={x(at)} y={height + 30}>{name}</text>
          </g>
        ))}
        {ticks(map.first, map.last).map((exponent) => (
          <text key={exponent} class="tick" x={x(exponent)} y={height + 14}>{power(exponent)}</text>
        ))}
      </svg>
    </div>
  );
}

function shorten(layer: string): string {
  return layer.length <= MAX_LABEL ? layer : `…${layer.slice(1 - MAX_LABEL)}`;
}
