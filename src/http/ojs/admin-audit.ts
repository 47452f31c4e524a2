import { z } from 'zod'
import { ok, operation, type Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'

const Query = z.object({
  before: queryNumber(1).optional(),
  limit: queryNumber(1, 1000).default(100),
})

/** Lists the changes made through the servers of this store. */
export const listAudit: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/audit',
  name: 'listAudit',
  summary: 'List the changes that operators and admins have made, latest first.',
  query: Query,
  answers: { 200: 'The changes, and `before` for the next page.' },
  async run({ server, tenant, query }) {
    const store = await server.remote.store()
    const rows = await store.auditTrail({
      before: query.before ?? null,
      tenant: tenant === '' ? null : tenant,
      limit: query.limit,
    })
    const items = rows.map(({ id, atMs, who, tenant: of, action, subject, detail }) => ({
      id,
      at: new Date(atMs).toISOString(),
      token: who,
      ...(of !== '' && { tenant: of }),
      action,
      subject,
      ...(JSON.parse(detail) as object),
    }))
    return ok({ items, before: rows.length === query.limit ? rows.at(-1)?.id : null })
  },
})
