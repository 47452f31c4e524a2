import { storeConformance } from '../conformance/store/suite.ts'
import { sqliteBackend } from './sqlite-backend.ts'

storeConformance(sqliteBackend('SQLite in memory', ':memory:'))
storeConformance(sqliteBackend('SQLite on a file', 'file'))
