import type { Logger } from '../base/logger.ts'

/**
 * Reads what an answer tells of work that is stored already. Where that fails the answer says less: an error would have the client
 * store the work twice.
 * @param otherwise what is told then
 */
export async function afterCommit<T>(
  logger: Logger,
  requestId: string,
  read: () => Promise<T>,
  otherwise: () => T,
): Promise<T> {
  try {
    return await read()
  } catch (error) {
    logger.warn({ err: error, requestId }, 'what was stored could not be read back; the answer says less of it')
    return otherwise()
  }
}
