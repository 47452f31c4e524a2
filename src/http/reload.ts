import { SluiceError } from '../base/errors.ts'
import type { AccessList } from './access.ts'
import { LimitRules, type ServedLimits } from './limit-rules.ts'
import type { Server } from './server.ts'
import { splitName } from './tenant.ts'
import type { Token } from './token.ts'

/** The new configuration of a running server. */
export interface Reload {
  /** All tokens; none: every caller has full access. */
  readonly tokens: readonly Token[]
  readonly limits: ServedLimits
  /** The cause of the reload, for the record. */
  readonly by: string
}

/**
 * Replaces the tokens and limits of a running server. An invalid change leaves everything as it was.
 * @throws {SluiceError} `option.invalid`, `policy.invalid`, `limit.unknown`
 */
export async function reload(server: Server, access: AccessList, { tokens, limits, by }: Reload): Promise<void> {
  // Refuses invalid limits before any token changes.
  void new LimitRules(limits)
  const before = access.names
  if (before.length > 0 && tokens.length === 0)
    throw new SluiceError(
      'option.invalid',
      'The new configuration has no tokens, so every client would have full access. Add tokens, or restart the server to allow it.',
    )
  const queues = server.limits.queueNames()
  access.replace(tokens)
  server.limits.replace(limits)
  const changed = await redefine(server)
  await server.remote.declareQueues(
    [...new Set([...queues, ...server.limits.queueNames()])].map((queue) => ({
      queue,
      uses: server.limits.ofWholeQueue(queue),
      version: 0,
    })),
  )
  for (const warning of access.warnings) server.logger.warn({}, warning)
  const request = {
    tokens: access.names,
    removed: before.filter((name) => !access.names.includes(name)),
    limits: server.limits.names(),
    changed,
  }
  await server.auditor.record({ who: by, tenant: '', action: 'reload', subject: 'configuration', request })
}

/**
 * Defines the limits of the configuration whose policy has changed, and the tenants' limits that follow them. Returns
 * their names.
 */
export async function redefine({ limits, remote }: Server): Promise<string[]> {
  const known = new Map((await (await remote.store()).limits()).map((each) => [each.name, each]))
  const wanted = [
    ...limits.names().map((name) => limits.definition('', name)),
    ...[...known.keys()].map((stored) => {
      const { tenant, name } = splitName(stored)
      const of = tenant === '' ? null : limits.definition(tenant, name)
      return of?.name === stored ? of : null
    }),
  ].filter((each) => each !== null)
  const changed = wanted.filter(
    ({ name, policy }) => JSON.stringify(known.get(name)?.policy) !== JSON.stringify(policy),
  )
  if (changed.length > 0) await remote.define(changed)
  return changed.map(({ name }) => name)
}
