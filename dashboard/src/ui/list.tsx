import type { UseInfiniteQueryResult, UseQueryResult } from '@tanstack/react-query'
import type { ReactElement, ReactNode } from 'react'
import { Button, Card, PageHead } from './parts.tsx'
import { Loaded } from './states.tsx'
import { Table, type TableProps } from './table.tsx'
import { count } from './words.ts'

/** A page that is one list: its head, its filters, and a table of what the server answered. */
export function ListPage<Data, Row>({
  title,
  sub,
  actions,
  filters,
  query,
  rowsOf,
  empty,
  bar,
  more,
  note,
  ...table
}: {
  readonly title: string
  readonly sub: ReactNode
  /** What stands beside the title. */
  readonly actions?: ReactNode
  /** What stands between the title and the table. */
  readonly filters?: ReactNode
  readonly query: UseQueryResult<Data>
  readonly rowsOf: (data: Data) => readonly Row[]
  /** What shows in place of a table without rows. */
  readonly empty: (data: Data) => ReactNode
  /** What stands in the card, above the rows. */
  readonly bar?: (rows: readonly Row[]) => ReactNode
  /** Set for a list that comes page by page. */
  readonly more?: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>
  /** What there is to say below the rows. */
  readonly note?: (data: Data) => ReactNode
} & Omit<TableProps<Row>, 'rows' | 'name'>): ReactElement {
  return (
    <>
      <PageHead title={title} sub={sub} actions={actions} />
      {filters}
      <Card flush>
        <Loaded query={query}>
          {(data) => {
            const rows = rowsOf(data)
            return (
              <>
                {rows.length > 0 && bar?.(rows)}
                {rows.length === 0 ? empty(data) : <Table {...table} name={title} rows={rows} />}
                {more && (rows.length > 0 || more.hasNextPage) && (
                  <footer className="flex min-h-11 flex-wrap items-center justify-between gap-3 border-t border-line px-4 py-1 text-xs text-faint">
                    <span>
                      {count(rows.length)} shown{note?.(data)}
                    </span>
                    {more.hasNextPage && (
                      <Button onClick={() => void more.fetchNextPage()} disabled={more.isFetchingNextPage}>
                        {more.isFetchingNextPage ? 'Loading…' : 'Show more'}
                      </Button>
                    )}
                  </footer>
                )}
              </>
            )
          }}
        </Loaded>
      </Card>
    </>
  )
}
