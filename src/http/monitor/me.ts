import { z } from 'zod'
import type { Operation } from '../operation.ts'
import { monitorOperation, Time } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

/** Tells a caller its rights. */
export const me: Operation = monitorOperation({
  method: 'GET',
  path: '/me',
  name: 'monitorMe',
  summary: 'Tell who asks, what the caller may do, and the time of the server.',
  answer: z.object({
    name: z.string(),
    role: z.enum(['reader', 'operator']),
    tenant: z.string().nullable().meta({ description: 'Null: things of all tenants, by their stored names.' }),
    version: z.string(),
    backend: z.string(),
    now: Time,
  }),
  async run(call) {
    const { access, server } = call
    return {
      name: access.name,
      role: access.scopes.has('operator') ? 'operator' : 'reader',
      tenant: seenBy(call).tenant,
      version: server.version,
      backend: (await server.remote.store()).backend,
      now: new Date(server.clock.now()).toISOString(),
    }
  },
})
