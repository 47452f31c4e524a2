import { lazy, type ReactElement, type ReactNode, Suspense } from 'react'

/** One column: its heading and the cell of a row. */
export interface Column<Row> {
  readonly id: string
  readonly head: ReactNode
  readonly cell: (row: Row) => ReactNode
  readonly right?: boolean
  /** Classes of the heading and each cell, such as the width below which the column is left out. */
  readonly className?: string
}

/** The rows of a table, and how each is drawn. */
export interface TableProps<Row> {
  /** For people who cannot see it. */
  readonly name: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly id: (row: Row) => string
  readonly selected?: (row: Row) => boolean
}

/** The rows that are in the page, and the empty room above and below them. */
export interface Shown<Row> {
  readonly rows: readonly Row[]
  readonly offset: number
  readonly above: number
  readonly below: number
}

export const ROW_PX = 41
/** Below this many rows the whole list is in the page, where the browser's own search finds it. */
const VIRTUAL_FROM = 150

const LongTable = lazy(() => import('./long-table.tsx').then((module) => ({ default: module.LongTable })))

/** A table that draws only the rows in view once there are many. Every row has one height: long texts are cut, and show on hover. */
export function Table<Row>(props: TableProps<Row>): ReactElement {
  const { rows } = props
  const begin = <Rows {...props} shown={{ rows: rows.slice(0, VIRTUAL_FROM), offset: 0, above: 0, below: 0 }} />
  if (rows.length < VIRTUAL_FROM) return begin
  return (
    <Suspense fallback={begin}>
      <LongTable {...(props as unknown as TableProps<unknown>)} />
    </Suspense>
  )
}

export function Rows<Row>({
  name,
  columns,
  rows,
  id,
  selected,
  shown,
}: TableProps<Row> & { readonly shown: Shown<Row> }): ReactElement {
  return (
    // Scrollable by the keyboard where it is wider than the page.
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={name}>
      <table className="w-full border-collapse text-left" aria-rowcount={rows.length + 1}>
        <thead>
          <tr className="border-b border-line text-xs text-faint">
            {columns.map(({ id: column, head, right, className = '' }) => (
              <th
                key={column}
                scope="col"
                className={`h-9 px-3 font-medium whitespace-nowrap first:pl-4 last:pr-4 ${right ? 'text-right' : ''} ${className}`}
              >
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.above > 0 && <Spacer height={shown.above} />}
          {shown.rows.map((row, index) => (
            <tr
              key={id(row)}
              aria-rowindex={shown.offset + index + 2}
              className={`border-b border-line last:border-0 hover:bg-sunken/60 ${selected?.(row) ? 'bg-accent-soft/50' : ''}`}
              style={{ height: ROW_PX }}
            >
              {columns.map(({ id: column, cell, right, className = '' }) => (
                <td
                  key={column}
                  className={`max-w-80 truncate px-3 first:pl-4 last:pr-4 ${right ? 'numbers text-right' : ''} ${className}`}
                >
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {shown.below > 0 && <Spacer height={shown.below} />}
        </tbody>
      </table>
    </div>
  )
}

function Spacer({ height }: { readonly height: number }): ReactElement {
  return (
    <tr aria-hidden="true">
      <td style={{ height }} />
    </tr>
  )
}
