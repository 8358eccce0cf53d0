// SPDX-License-Identifier: Apache-2.0
// Symbols by name and version, looked up in an image's hash tables only.

#include "image/lookup.h"
#include "image/image.h"

uint32_t sosc_gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static uint32_t sysv_hash(const char *name) // gABI, "Hash Table"
{
	uint32_t hash = 0, high;

	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		high = hash & 0xf0000000;
		hash ^= high >> 24;
		hash &= ~high;
	}
	return hash;
}

const char *sosc_symbol_name(const struct sosc_loaded *image, uint32_t symbol)
{
	uint32_t name = image->symtab[symbol].st_name;

	return name < image->strsz ? image->strtab + name : "";
}

/**
 * Return the version that the image requires of this undefined symbol, or gives to this defined
 * symbol; NULL for none (LSB, "Symbol Versioning").
 */
const char *sosc_symbol_version(const struct sosc_loaded *image, uint32_t symbol)
{
	const uint8_t *at;
	uint64_t left;
	uint32_t want;

	if (!image->versym)
		return NULL;
	want = image->versym[symbol] & 0x7fff;
	if (want < 2)
		return NULL;
	at = image->verneed;
	for (left = image->verneednum; at && left; left--) {
		const Elf64_Verneed *need = (const void *)at;
		const uint8_t *aux_at = at + need->vn_aux;

		for (uint32_t i = 0; i < need->vn_cnt; i++) {
			const Elf64_Vernaux *aux = (const void *)aux_at;

			if ((aux->vna_other & 0x7fff) == want)
				return image->strtab + aux->vna_name;
			aux_at += aux->vna_next;
		}
		at += need->vn_next;
	}
	at = image->verdef;
	for (left = image->verdefnum; at && left; left--) {
		const Elf64_Verdef *def = (const void *)at;

		if ((def->vd_ndx & 0x7fff) == want && !(def->vd_flags & VER_FLG_BASE)) {
			const Elf64_Verdaux *aux = (const void *)(at + def->vd_aux);

			return image->strtab + aux->vda_name;
		}
		at += def->vd_next;
	}
	return NULL;
}

// glibc's check_match (elf/dl-lookup.c) in short: a required version must equal the defined
// version. Without a required version, hidden versions do not match.
static bool version_matches(const struct sosc_loaded *image, uint32_t symbol, const char *version)
{
	const char *has;

	if (!image->versym)
		return true;
	if (!version)
		return !(image->versym[symbol] & 0x8000);
	has = sosc_symbol_version(image, symbol);
	return has ? sosc_same(has, version) : !(image->versym[symbol] & 0x8000);
}

static bool answers(const struct sosc_loaded *image, uint32_t symbol, const char *name,
		    const char *version)
{
	const Elf64_Sym *sym = &image->symtab[symbol];

	if (sym->st_shndx == SHN_UNDEF || (!sym->st_value && sym->st_shndx != SHN_ABS) ||
	    ELF64_ST_BIND(sym->st_info) == STB_LOCAL || ELF64_ST_TYPE(sym->st_info) == STT_TLS)
		return false;
	return sosc_same(sosc_symbol_name(image, symbol), name) &&
	       version_matches(image, symbol, version);
}

const Elf64_Sym *sosc_lookup(const struct sosc_loaded *image, const char *name, uint32_t hash,
			     const char *version)
{
	if (!image->symtab || !image->strtab)
		return NULL;
	if (image->gnu_hash) {
		const uint32_t *table = image->gnu_hash;
		uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
		const uint64_t *bloom = (const void *)(table + 4);
		const uint32_t *bucket = (const void *)(bloom + words);
		const uint32_t *chain = bucket + buckets;
		uint64_t word;
		uint32_t i;

		if (!buckets || !words)
			return NULL;
		word = bloom[(hash / 64) & (words - 1)];
		if (!(word >> (hash & 63) & word >> ((hash >> shift) & 63) & 1))
			return NULL;
		i = bucket[hash % buckets];
		if (i < first)
			return NULL;
		for (;; i++) {
			uint32_t h = chain[i - first];

			if ((h | 1) == (hash | 1) && answers(image, i, name, version))
				return &image->symtab[i];
			if (h & 1)
				return NULL;
		}
	}
	if (image->sysv_hash && image->sysv_hash[0]) {
		const uint32_t *table = image->sysv_hash;
		uint32_t i = table[2 + sysv_hash(name) % table[0]];

		for (uint32_t left = table[1]; i && left; left--) {
			if (answers(image, i, name, version))
				return &image->symtab[i];
			i = table[2 + table[0] + i];
		}
	}
	return NULL;
}

/**
 * Find the first definition in link-map order of namespace @ns. That is what the loader's global
 * scope yields, except in programs with RTLD_LOCAL or RTLD_DEEPBIND. It is used for names in
 * reports. Calls go where the loader has bound them.
 */
const Elf64_Sym *sosc_lookup_all(uint32_t ns, const char *name, const char *version,
				 struct sosc_loaded **provider)
{
	uint32_t hash = sosc_gnu_hash(name);

	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		const Elf64_Sym *sym;

		if (!sosc_loaded[i].map || sosc_loaded[i].ns != ns)
			continue;
		sym = sosc_lookup(&sosc_loaded[i], name, hash, version);
		if (sym) {
			*provider = &sosc_loaded[i];
			return sym;
		}
	}
	*provider = NULL;
	return NULL;
}

/**
 * Return the address of the first function @name of namespace @ns. Return 0 if there is none, or if
 * it is an IFUNC.
 */
uint64_t sosc_function_addr(uint32_t ns, const char *name)
{
	struct sosc_loaded *provider;
	const Elf64_Sym *symbol = sosc_lookup_all(ns, name, NULL, &provider);

	if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return 0;
	return provider->bias + symbol->st_value;
}

// Returns whether @name equals @wanted, or begins with @wanted if that ends with an underscore.
static bool is_called(const char *name, const char *wanted)
{
	for (; *wanted && *name == *wanted; wanted++)
		name++;
	return !*wanted && (!*name || wanted[-1] == '_');
}

/** Return whether @image imports a symbol that matches @wanted (see is_called). */
bool sosc_imports(const struct sosc_loaded *image, const char *wanted)
{
	for (int table = 0; table < 2; table++) {
		const Elf64_Rela *rela = table ? image->rela : image->jmprel;
		uint64_t count = table ? image->relacount : image->jmprelcount;

		for (uint64_t i = 0; i < count; i++) {
			uint32_t symbol = (uint32_t)ELF64_R_SYM(rela[i].r_info);

			if (symbol && image->symtab[symbol].st_shndx == SHN_UNDEF &&
			    is_called(sosc_symbol_name(image, symbol), wanted))
				return true;
		}
	}
	return false;
}

// Returns the number of symbols that the hash tables contain.
static uint32_t count_symbols(const struct sosc_loaded *image)
{
	const uint32_t *table = image->gnu_hash, *bucket, *chain;
	uint32_t last = 0;

	if (!table)
		return image->sysv_hash ? image->sysv_hash[1] : 0;
	bucket = table + 4 + 2ul * table[2];
	chain = bucket + table[0];
	for (uint32_t i = 0; i < table[0]; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < table[1])
		return 0;
	while (!(chain[last - table[1]] & 1))
		last++;
	return last + 1;
}

/** Return whether @image defines a symbol that matches @wanted (see is_called). */
bool sosc_exports(const struct sosc_loaded *image, const char *wanted)
{
	uint32_t count = count_symbols(image);

	for (uint32_t i = 1; i < count; i++)
		if (image->symtab[i].st_shndx != SHN_UNDEF &&
		    is_called(sosc_symbol_name(image, i), wanted))
			return true;
	return false;
}

/**
 * Return whether a function belongs to the C library. @version is the version that the caller
 * requires, NULL = none. @callee is the image that provides the function, NULL = unknown. Other
 * libraries may have functions of the same name.
 */
bool sosc_is_of_libc(const char *version, const struct sosc_loaded *callee)
{
	static const char prefix[] = "GLIBC_";

	for (uint32_t i = 0; version && version[i] == prefix[i]; i++)
		if (!prefix[i + 1])
			return true;
	return callee && callee->loader; // musl's C library is also the loader
}

/** Return the address of a symbol that @image itself defines, 0 if it defines none of that name. */
uint64_t sosc_function_of(const struct sosc_loaded *image, const char *name)
{
	const Elf64_Sym *symbol = sosc_lookup(image, name, sosc_gnu_hash(name), NULL);

	return symbol ? image->bias + symbol->st_value : 0;
}
