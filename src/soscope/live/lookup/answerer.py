# SPDX-License-Identifier: Apache-2.0
"""Answer queries: apply the look-up rules in their order.

A name alone means the result of dlsym(RTLD_DEFAULT) in the program. A name that is not found that
way may still be in images outside of the global scope. If several have it, the answer is
ambiguous and lists them.
"""

from __future__ import annotations

import os

from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.lookup import answer as words
from soscope.live.lookup.answer import Answer, Candidate, Query
from soscope.live.lookup.lookup import Hit, Lookup, rule_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.live.lookup.names import PictureNames

_NOT_IN_SCOPE = "no image of the scope defines it"
_SHORT = 3  # characters of a name that may not be among DWARF's strings


class Answerer:
    """Answers queries about the images of a process at one moment.

    `tid` is the thread whose thread-local variables are meant. `namespace` is the namespace whose
    scope is searched (None: the program's). If `lists` is true, answers have every definition as
    a candidate. If `seen_from` is set, answers are the contents of that image's slots. `names`
    returns the look-up for names that are not dynamic symbols, which are read if a loader would
    find nothing.
    """

    __slots__ = ("_names", "images", "lists", "lookup", "namespace", "seen_from", "tid")

    def __init__(
        self,
        images: Images,
        tid: int,
        names: Callable[[], PictureNames],
        *,
        namespace: int | None = None,
        lists: bool = False,
        seen_from: str | None = None,
    ) -> None:
        self.images = images
        self.tid = tid
        self._names = names
        self.namespace = namespace
        self.lists = lists
        self.seen_from = seen_from
        self.lookup = Lookup(images, tid)

    def answer(self, query: Query) -> Answer:
        """Answer a query for a name or an address."""
        if query.addr is not None:
            return self._names().by_addr(Answer(query.text), query.addr)
        return self.by_name(query)

    def by_name(self, query: Query) -> Answer:
        """Answer a query for a name."""
        result = Answer(query.text)
        if self.seen_from is not None:
            return self._seen(result, query, self.seen_from)
        if query.image is not None:
            images = self._called(result, query.image)
            if images is not None:
                self._on_handle(result, query, images)
        else:
            self._in_scope(result, query)
        if self.lists:
            self._list_all(result, query)
        return result

    def by_names(self, names: Iterable[str]) -> dict[str, Answer]:
        """Answer many names from the global scope; names that it does not define are left out."""
        scope = self.images.scope(self.namespace or 0)
        settle = self.lookup.settle
        answers = {}
        for name, hit in self.lookup.first_all(scope, names).items():
            answers[name] = settle(Answer(name), hit, name, words.RULE_DLSYM)
        return answers

    def by_other_names(self, names: Iterable[str]) -> dict[str, Answer]:
        """Answer many names that the scope does not define, as `by_name` would.

        Names that other images export, or that the scope has with another version, are left out.
        """
        namespace = self.namespace or 0
        scope = self.images.scope(namespace)
        if not scope:
            return {}
        known, every = self._names(), self.images.all
        wanted = {name for name in names if len(name) > _SHORT}
        wanted -= self.lookup.exported(every, wanted)
        having = known.having(wanted, every)
        described: list[LoadedImage] = []
        if len(having) < len(wanted):
            described = known.described_images(every)
        notes = known.notes_of(every)
        answers = {}
        for name in wanted:
            result = answers[name] = Answer(name)
            self._say_scope(result, scope, namespace)
            result.why.append(_NOT_IN_SCOPE)
            where = having.get(name)
            self._static(result, Query(name, name), where or described, notes)
            if where and result.status == words.NONE:  # it may have another version
                del answers[name]
        return answers

    def _seen(self, result: Answer, query: Query, text: str) -> Answer:
        """Answer with the contents of the slots of the image called `text`."""
        from soscope.live.lookup.seen import seen_from

        images = self._called(result, text)
        if images is None:
            return result
        answers = [seen_from(self.images, image, query) for image in images]
        if len({(answer.status, answer.addr) for answer in answers}) == 1:
            return answers[0]
        result.candidates = [answer.as_candidate() for answer in answers]
        return result.refuse(words.AMBIGUOUS, f"{len(images)} images are called {text}")

    # ---- the global scope ----

    def _in_scope(self, result: Answer, query: Query) -> None:
        namespace = self.namespace or 0
        scope = self.images.scope(namespace)
        if not scope:
            result.refuse(words.NONE, f"there is no namespace {namespace}")
            return
        self._say_scope(result, scope, namespace)
        name = os.fsencode(query.name)
        hit = self.lookup.first(scope, name, query.version)
        if hit is not None:
            place = next(at for at, image in enumerate(scope) if image is hit[0])
            result.why.append(f"image {place + 1} of the scope, {hit[0].name}, defines it")
            self.lookup.settle(result, hit, query.name, words.RULE_DLSYM)
            return
        result.why.append(_NOT_IN_SCOPE)
        self._beyond(result, query, self.lookup.beyond(name, query.version, namespace))

    def _say_scope(self, result: Answer, scope: list[LoadedImage], namespace: int) -> None:
        images = self.images
        if images.debug:
            result.why.append(f"r_debug {images.debug:#x}: {len(images.linked)} images")
        if images.space.is_patchwork:
            result.why.append("the memory may not be read: mappings and files only")
        kind = "guessed from DT_NEEDED" if images.scope_is_guessed else "the loader's own list"
        result.why.append(f"global scope of namespace {namespace}: {len(scope)} images, {kind}")

    def _beyond(self, result: Answer, query: Query, hits: list[Hit]) -> None:
        """Answer with definitions in images outside of the scope."""
        if hits and self.images.is_static:
            # All symbols of a static program are static ones. Those of images that it has loaded
            # come no earlier.
            own = self._names().statics(self.lookup, query, [self.images.main])
            if own:
                candidates = [
                    self.lookup.candidate(hit, query.name, rule_of(hit[0])) for hit in hits
                ]
                result.candidates = [answer.as_candidate() for answer in own] + candidates
                result.refuse(words.AMBIGUOUS, "the program and what it has loaded define it")
                return
        if len(hits) == 1:
            image = hits[0][0]
            result.why.append(f"{image.name}, which is not in the scope, defines it")
            self.lookup.settle(result, hits[0], query.name, rule_of(image))
        elif hits:
            self._ambiguous(result, query.name, hits)
        else:
            self._hidden_or_static(result, query)

    def _ambiguous(self, result: Answer, name: str, hits: list[Hit]) -> None:
        candidates = [self.lookup.candidate(hit, name, rule_of(hit[0])) for hit in hits]
        if (
            len({candidate.addr for candidate in candidates}) == 1
            and candidates[0].addr is not None
        ):
            self.lookup.settle(result, hits[0], name, rule_of(hits[0][0]))
            return
        result.candidates = candidates
        result.refuse(words.AMBIGUOUS, f"{len(candidates)} images define it: say IMAGE!{name}")

    def _hidden_or_static(self, result: Answer, query: Query) -> None:
        """Answer for a name that no loader would find."""
        name = os.fsencode(query.name)
        hidden = self.lookup.every(self.images.linked, name)
        if hidden:
            self._only_versions(result, query, hidden)
            return
        self._static(result, query, self.images.all)

    def _only_versions(self, result: Answer, query: Query, hits: list[Hit]) -> None:
        """Refuse a name that needs a version, or another version, and list the versions."""
        result.candidates = [
            self.lookup.candidate(hit, query.name, rule_of(hit[0])) for hit in hits
        ]
        versions = {candidate.version or "" for candidate in result.candidates}
        listed = ", ".join(sorted(versions - {""}))
        if "" not in versions:
            result.refuse(words.NONE, f"only with these versions: {listed}")
            return
        also = f", or with these versions: {listed}" if listed else ""
        why = f"only without a version{also}"
        result.refuse(words.NONE, why + self._put_right(query))

    def _put_right(self, query: Query) -> str:
        """Return a hint on the right syntax if the query is IMAGE:NAME or NAME@IMAGE, else ""."""
        before, _, behind = query.name.partition(":")
        for image, name in ((before, behind), (query.version, query.name)):
            if name and any(loaded.name == image for loaded in self.images.all):
                return f"; an image stands in front: {image}!{name}"
        return ""

    # ---- static symbols ----

    def _static(
        self,
        result: Answer,
        query: Query,
        images: list[LoadedImage],
        notes: list[str] | None = None,
    ) -> None:
        """Answer with static symbols of these images, which are in files, not known to a loader.

        `notes` are the notes on all images, if `images` are only some of them.
        """
        names = self._names()
        answers = names.statics(self.lookup, query, images)
        if not answers and query.is_demangled:
            from soscope.live.names.demangle import mangled_names

            mangled = mangled_names(query.name, images, result.why)
            queries = [Query(query.text, name, image=query.image) for name in mangled]
            answers = [
                answer for answer in map(self.by_name, queries) if answer.status != words.NONE
            ]
        if not answers:
            answers = names.described(query, images)
        if not answers:
            result.why += names.notes_of(images) if notes is None else notes
            images = images[:1] if query.image is not None else []
            where = images[0].name if images else "any image"
            whole = "; not all names were read, --why says which" if names.left_out else ""
            why = f"symbol '{query.name}' not found in {where}{whole}{self._put_right(query)}"
            result.refuse(words.NONE, why)
        elif len({answer.addr for answer in answers}) == 1 and answers[0].status != words.NONE:
            result.take(answers[0])
        else:
            result.candidates = [answer.as_candidate() for answer in answers]
            result.refuse(words.AMBIGUOUS, f"{len(answers)} definitions that no loader knows")

    # ---- one image ----

    def _called(self, result: Answer, text: str) -> list[LoadedImage] | None:
        """Return the images called `text`; if there are none, refuse and return None."""
        images = self.images.named(text)
        if self.namespace is not None:
            images = [image for image in images if image.namespace == self.namespace]
        if not images:
            result.refuse(words.NONE, f"no image is called {text}")
            return None
        return images

    def _on_handle(self, result: Answer, query: Query, images: list[LoadedImage]) -> None:
        """Answer with the results of dlsym for handles of these images."""
        hits: list[tuple[LoadedImage, Hit]] = []
        name = os.fsencode(query.name)
        if images[0].is_main and self.lookup.first(images[:1], name, query.version) is None:
            self._static(result, query, images[:1])
            if result.status != words.NONE:
                return
            result.why.pop()
        for image in images:
            hit = self._handle(image, name, query.version)
            if hit is not None:
                hits.append((image, hit))
        distinct = {(id(hit[0]), hit[1].index) for _, hit in hits}
        if len(distinct) == 1:
            image, hit = hits[0]
            if hit[0] is not image:
                result.why.append(f"{hit[0].name}, which {image.name} needs, defines it")
            self.lookup.settle(result, hit, query.name, rule_of(hit[0]))
        elif hits:
            self._ambiguous(result, query.name, [hit for _, hit in hits])
            result.why.append(f"{len(images)} images are called {query.image}: use --namespace")
        else:
            self._hidden_of(result, query, images)

    def _hidden_of(self, result: Answer, query: Query, images: list[LoadedImage]) -> None:
        """Answer for a name that dlsym does not find with handles of these images."""
        hidden = self.lookup.every(images, os.fsencode(query.name))
        if hidden and query.version is None:
            self._only_versions(result, query, hidden)
        else:
            self._static(result, query, images)

    def _handle(self, image: LoadedImage, name: bytes, version: str | None) -> Hit | None:
        """Return what dlsym finds with a handle of `image`, None if nothing."""
        if image.is_main:  # first its own, also static ones; see _on_handle
            own = self.lookup.first([image], name, version)
            return own or self.lookup.first(self.images.scope(0), name, version)
        from soscope.live.images.scope import search_list

        where, _ = search_list(self.images, image)
        return self.lookup.first(where, name, version)

    # ---- --all ----

    def _list_all(self, result: Answer, query: Query) -> None:
        """List every definition: first in scope order, then in the other images."""
        scope = self.images.scope(self.namespace or 0)
        known = set(map(id, scope))
        where = scope + [image for image in self.images.all if id(image) not in known]
        name = os.fsencode(query.name)
        candidates: list[Candidate] = []
        for hit in self.lookup.every(where, name):
            rule = words.RULE_DLSYM if id(hit[0]) in known else rule_of(hit[0])
            candidate = self.lookup.candidate(hit, query.name, rule)
            candidate.wins = result.addr is not None and (
                candidate.addr == result.addr
                and hit[0] is result.image
                and candidate.version == result.version
            )
            candidates.append(candidate)
        listed = {(id(definition.image), definition.addr) for definition in candidates}
        for answer in self._names().statics(self.lookup, query, where):
            candidate = answer.as_candidate()
            if (id(candidate.image), candidate.addr) not in listed:
                candidate.wins = candidate.addr == result.addr and candidate.addr is not None
                candidates.append(candidate)
        # Candidates of a C++ name are listed already, because each mangled name was looked up.
        result.candidates = candidates or result.candidates
