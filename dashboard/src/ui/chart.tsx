import { lazy, type ReactElement, Suspense } from 'react'

/** One line or area of a chart. */
export interface ChartSeries {
  readonly name: string
  readonly points: readonly (readonly [number, number | null])[]
  /** The number of its colour among the tokens `--plot-…`. */
  readonly colour: 1 | 2 | 3 | 4 | 5 | 6
  readonly fill?: boolean
}

export interface ChartProps {
  /** What it shows, with the unit, for people who cannot see it. */
  readonly label: string
  readonly unit: string
  readonly series: readonly ChartSeries[]
  /** A line across, such as the budget. */
  readonly ceiling?: { readonly name: string; readonly value: number } | null
  /** Where true, the time is shaded: something was throttled then. */
  readonly shaded?: { readonly name: string; readonly points: readonly (readonly [number, number | null])[] }
  readonly height?: number
}

const Plot = lazy(() => import('./plot.tsx').then(({ Plot }) => ({ default: Plot })))

/** A chart over time. Its library is loaded when the first one shows. */
export function Chart(props: ChartProps): ReactElement {
  const { height = 200, label, series, shaded, ceiling, unit } = props
  return (
    <figure aria-label={label} className="min-w-0">
      <figcaption className="mb-2 flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
        {series.map(({ name, colour }) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <span className="h-0.5 w-3.5 rounded" style={{ background: `var(--plot-${colour})` }} aria-hidden="true" />
            {name}
          </span>
        ))}
        {ceiling && (
          <span className="inline-flex items-center gap-1.5">
            <span className="w-3.5 border-t-2 border-dashed border-(--plot-5)" aria-hidden="true" />
            {ceiling.name}
          </span>
        )}
        {shaded && (
          <span className="inline-flex items-center gap-1.5">
            <span className="h-2.5 w-3.5 rounded-sm bg-(--plot-2)/25" aria-hidden="true" />
            {shaded.name}
          </span>
        )}
        <span className="ml-auto text-faint">{unit}</span>
      </figcaption>
      <div style={{ height }}>
        <Suspense fallback={null}>
          <Plot {...props} height={height} />
        </Suspense>
      </div>
    </figure>
  )
}
