import { z } from 'zod'
import type { Call, Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { type LimitFigures, limitFigures } from '../../engine/api/limit-figures.ts'
import { LimitJson, limitJson } from './limit-json.ts'
import { monitorOperation, Name } from './monitor-operation.ts'
import { seesLimit, storedLimit } from './seen.ts'

/** Lists all limits with what waits for them. */
export const listLimits: Operation = monitorOperation({
  method: 'GET',
  path: '/limits',
  name: 'monitorLimits',
  summary: 'List all limits by name, with their budgets and what waits for them.',
  answer: z.object({ limits: z.array(LimitJson) }),
  async run(call) {
    await call.server.monitor.backendsDown.look()
    const { value } = await call.server.monitor.limits.get()
    return { limits: value.filter(({ limit }) => seesLimit(call, limit.name)).map((each) => limitJson(call, each)) }
  },
})

/** Shows one limit. */
export const getLimit: Operation = monitorOperation({
  method: 'GET',
  path: '/limits/:name',
  name: 'monitorLimit',
  summary: 'Show one limit, with its budgets and what waits for them.',
  params: z.object({ name: Name }),
  answer: LimitJson,
  async run(call) {
    const { name } = call.params
    return limitJson(call, await figuresOf(call, storedLimit(call, name), name))
  },
})

/** Refuses an unknown limit, and counts nothing. @throws {Refusal} 404 */
export async function requireLimit(
  call: Call<unknown, unknown, unknown>,
  stored: string,
  named: string,
): Promise<void> {
  const known = await call.server.sluice.limits.list()
  if (!known.some(({ name }) => name === stored)) throw notFound('limit', named)
}

/** The figures of one limit now. @throws {Refusal} 404 */
export async function figuresOf(
  call: Call<unknown, unknown, unknown>,
  stored: string,
  named: string,
): Promise<LimitFigures> {
  const { sluice, remote, monitor } = call.server
  await monitor.backendsDown.look()
  const [found] = await limitFigures(sluice.limits, await remote.store(), monitor.figureSources, stored)
  if (!found) throw notFound('limit', named)
  return found
}
